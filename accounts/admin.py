"""The admin of accounts, for operators of all clusters."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AutocompleteSelect
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import User
from django.db import models
from django.http import HttpRequest

from accounts.models import ClusterTeams, Membership, Team, Token
from accounts.teams import noted
from cluster.named_fields import NamedDates, NamedRows, NamesInWords

admin.site.unregister(User)  # the one below names the fields of its dates


class UserForm(NamedDates, UserChangeForm):  # type: ignore[type-arg]
    """A user with named dates."""


@admin.register(User)
class NamedUserAdmin(UserAdmin):  # type: ignore[type-arg]
    """Users, as Django has them."""

    form = UserForm

    def get_search_fields(self, request: HttpRequest) -> Any:
        """Search only names without the permission to see users: a search by address would say whose it is."""
        return super().get_search_fields(request) if self.has_view_permission(request) else ["username"]


@admin.register(Token)
class TokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Tokens of all users, without their texts, which nobody can read. Deleting one ends it."""

    list_display = ["user", "name", "hint", "scope", "cluster", "created_at", "expires_at", "last_used_at"]
    list_display_links = None
    list_filter = ["scope", "cluster"]
    list_select_related = ["user", "cluster"]
    search_fields = ["user__username", "name", "hint"]
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse to add."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to change."""
        return False


class ChosenUser(AutocompleteSelect):
    """A field that finds users. While it is empty its placeholder is its name, and Django's is empty, too."""

    def build_attrs(self, base_attrs: dict[str, Any], extra_attrs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Add the placeholder."""
        return {**super().build_attrs(base_attrs, extra_attrs), "data-placeholder": "Choose a user"}


class MembershipInline(admin.TabularInline):  # type: ignore[type-arg]
    """Members of the team with their roles."""

    model = Membership
    formset = NamedRows
    autocomplete_fields = ["user"]
    extra = 0

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Use the widget with a placeholder."""
        if db_field.name == "user":
            kwargs["widget"] = ChosenUser(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


@admin.register(Team)
class TeamAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Teams with their members."""

    form = NamesInWords
    list_display = ["name", "title", "created_at"]
    search_fields = ["name", "title"]
    inlines = [MembershipInline]


@admin.register(ClusterTeams)
class ClusterTeamsAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The teams of clusters: the one that operates a cluster, and those that may use it."""

    list_display = ["cluster", "operated_by", "is_restricted", "needs_team"]
    list_select_related = ["cluster", "operated_by"]
    # Django's selector in two columns has attributes that its elements may not have.
    formfield_overrides: ClassVar = {models.ManyToManyField: {"widget": forms.CheckboxSelectMultiple}}

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Let processes read again which teams may bid."""
        super().save_related(request, form, formsets, change)
        noted(form.instance.cluster)

    def delete_model(self, request: HttpRequest, obj: ClusterTeams) -> None:
        """Open the cluster to all users."""
        super().delete_model(request, obj)
        noted(obj.cluster)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Open the clusters to all users."""
        clusters = [row.cluster for row in queryset.select_related("cluster")]
        super().delete_queryset(request, queryset)
        for cluster in clusters:
            noted(cluster)
