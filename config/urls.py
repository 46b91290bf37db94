"""The one root URL map."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path

from auctions.runtime.health import healthz, livez, readyz
from auctions.runtime.metrics import Metrics
from frontend.views import single_sign_on
from frontend.views.login import Login

# Below /api/ these answer with problem documents, elsewhere with pages.
handler400 = "web.problems.handler400"
handler403 = "web.problems.handler403"
handler404 = "web.problems.handler404"
handler500 = "web.problems.handler500"

urlpatterns = [
    path("livez", livez, name="livez"),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("admin/", admin.site.urls),
    path("api/v1/", include("studies.split_learning.api.urls")),
    path("api/v1/", include("studies.counterfactuals.api.urls")),
    path("api/v1/", include("studies.experiments.api.urls")),
    path("api/v1/", include("execution.api.urls")),
    path("api/v1/", include("accounts.api.urls")),
    path("api/v1/", include("auctions.api.urls")),
    path("login/", Login.as_view(), name="login"),
    path("login/single-sign-on/", single_sign_on.begin, name="sso"),
    path("login/single-sign-on/return/", single_sign_on.come_back, name="sso_return"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("", include("frontend.urls")),
]
