"""The manifests for Kubernetes: valid by its schema, the processes of `docker-compose.yml`, and nothing beyond them."""

from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from auctions.tasks import archive_old_events
from tests.architecture.test_compose import SERVICES
from tests.processes import ROOT

FOLDER: Final = ROOT / "deploy/kubernetes"
OWN: Final = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
DOCUMENTS: Final[list[dict[str, Any]]] = [
    document for name in OWN["resources"] for document in yaml.safe_load_all((FOLDER / name).read_text())
]
PODS: Final = {
    one["metadata"]["name"]: one["spec"]["template"] for one in DOCUMENTS if one["kind"] in ("Deployment", "Job")
}
SETTINGS: Final = next(one["data"] for one in DOCUMENTS if one["kind"] == "ConfigMap")
VERSIONS: Final = ("1.29", "1.34")


def named(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def of_kind(kind: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in DOCUMENTS if one["kind"] == kind}


def validate(document: dict[str, Any], version: str) -> None:
    import kubernetes_validate  # takes two seconds, which processes with other tests need not spend

    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_a_manifest_is_valid_by_the_schema_of_kubernetes(document: dict[str, Any], version: str) -> None:
    validate(document, version)


def test_the_schema_refuses_a_field_that_does_not_exist() -> None:
    wrong = deepcopy(of_kind("Deployment")["web"])
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(Exception, match="livenesProbe"):
        validate(wrong, VERSIONS[0])


def test_every_file_of_the_folder_is_listed() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*OWN["resources"], "kustomization.yaml"}


def plain(command: list[str]) -> list[str]:
    """A command without the name of a worker, which is that of its pod here."""
    return command[: command.index("--hostname")] if "--hostname" in command else command


def test_the_processes_are_those_of_the_compose_file() -> None:
    composed = {name: one["command"] for name, one in SERVICES.items() if name not in ("postgres", "redis")}
    assert composed.pop("worker-2")[:-1] == composed["worker-1"][:-1]
    composed["worker"] = composed.pop("worker-1")
    composed = {name: [part.replace("$$", "$") for part in command] for name, command in composed.items()}
    here = {name: pod["spec"]["containers"][0]["command"] for name, pod in PODS.items()}
    assert {name: plain(command) for name, command in here.items()} == {
        name: plain(command) for name, command in composed.items()
    }


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_no_rights_that_it_does_not_need(name: str) -> None:
    pod = PODS[name]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    expected = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == expected
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


@pytest.mark.parametrize("name", of_kind("Deployment"))
def test_a_lasting_pod_is_restarted_when_it_hangs(name: str) -> None:
    assert "livenessProbe" in PODS[name]["spec"]["containers"][0]


def test_probes_of_web_ask_addresses_that_exist_by_a_name_that_is_served() -> None:
    container = PODS["web"]["spec"]["containers"][0]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/healthz",
    }
    for probe in probes.values():
        assert probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    assert "localhost" in SETTINGS["SHADOWPRICE_HOSTS"].split(",")
    assert of_kind("Service")["web"]["spec"]["selector"] == PODS["web"]["metadata"]["labels"]


def test_secrets_are_files() -> None:
    secrets = {name: value for name, value in SETTINGS.items() if value.startswith("/secrets/")}
    assert set(secrets) == {"SHADOWPRICE_SECRET_KEY_FILE", "DATABASE_URL_FILE", "REDIS_URL_FILE"}
    for name in ("SHADOWPRICE_SECRET_KEY", "DATABASE_URL", "REDIS_URL"):
        assert name not in SETTINGS
    assert SETTINGS["SHADOWPRICE_PRODUCTION"] == "1"
    for pod in PODS.values():
        [container] = pod["spec"]["containers"]
        assert {one["name"] for one in container.get("env", ())} <= {"SHADOWPRICE_ARCHIVES"}
        assert {"name": "secrets", "mountPath": "/secrets", "readOnly": True} in container["volumeMounts"]
    keys = {Path(value).name for value in secrets.values()}
    words = (ROOT / "docs/operators/kubernetes.md").read_text()
    assert [key for key in keys if f"--from-file={key}" not in words] == []


def test_a_drain_of_a_node_leaves_a_pod_of_what_has_several() -> None:
    deployments = of_kind("Deployment")
    several = {name for name, one in deployments.items() if one["spec"]["replicas"] > 1}
    budgets = of_kind("PodDisruptionBudget")
    assert set(budgets) == several == {"web", "worker"}
    for name, budget in budgets.items():
        assert budget["spec"]["selector"] == deployments[name]["spec"]["selector"]
        assert budget["spec"]["minAvailable"] < deployments[name]["spec"]["replicas"]


def test_there_is_never_a_second_beat() -> None:
    beat = of_kind("Deployment")["beat"]["spec"]
    assert (beat["replicas"], beat["strategy"]) == (1, {"type": "Recreate"})


def mounted(container: dict[str, Any]) -> dict[str, str]:
    return {one["mountPath"]: one["name"] for one in container["volumeMounts"]}


def test_the_worker_that_archives_has_a_volume_that_is_kept(settings: Any) -> None:
    queue = settings.CELERY_TASK_ROUTES[archive_old_events.name]["queue"]
    [writer] = [name for name, pod in PODS.items() if queue in pod["spec"]["containers"][0]["command"]]
    pod = PODS[writer]["spec"]
    [container] = pod["containers"]
    [folder] = [one["value"] for one in container["env"] if one["name"] == "SHADOWPRICE_ARCHIVES"]
    [volume] = [one for one in pod["volumes"] if one["name"] == mounted(container)[folder]]
    claim = of_kind("PersistentVolumeClaim")[volume["persistentVolumeClaim"]["claimName"]]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"], "so that the pod may write there"
    # A volume of one node cannot be taken by the next pod while the last one has it.
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    deployment = of_kind("Deployment")[writer]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    composed = SERVICES[writer]
    assert f"archives:{composed['environment']['SHADOWPRICE_ARCHIVES']}" in composed["volumes"]


def test_no_other_pod_names_a_directory_of_archives() -> None:
    assert "SHADOWPRICE_ARCHIVES" not in SETTINGS
    claims = {
        name: [one["name"] for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
        for name, pod in PODS.items()
    }
    assert {name: found for name, found in claims.items() if found} == {"bounds": ["archives"]}
    assert [name for name, pod in PODS.items() if "env" in pod["spec"]["containers"][0]] == ["bounds"]
