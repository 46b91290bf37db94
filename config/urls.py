"""The one root URL map; what nothing answers under /api/v1/ is a problem document, too."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path, re_path

from auctions.runtime.health import healthz, livez, readyz
from auctions.runtime.metrics import Metrics
from frontend.views import single_sign_on
from frontend.views.login import Login
from web.problems import not_found

# Below /api/ these answer with problem documents, elsewhere with pages.
handler400 = "web.problems.handler400"
handler403 = "web.problems.handler403"
handler404 = "web.problems.handler404"
handler500 = "web.problems.handler500"

# A request is compared with these in order: bids are most of them.
urlpatterns = [
    path("api/v1/", include("auctions.api.urls")),
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
    re_path(r"^api/v1/.*$", not_found),
    path("login/", Login.as_view(), name="login"),
    path("login/single-sign-on/", single_sign_on.begin, name="sso"),
    path("login/single-sign-on/return/", single_sign_on.come_back, name="sso_return"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("", include("frontend.urls")),
]
