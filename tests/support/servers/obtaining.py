"""How each server is had: pinned, checked against a hash, made once.

lakeFS has no package, so a program of one line that imports it is built. Its module is checked against the sum below,
and everything it is built from against lakeFS's own ``go.sum``, which is inside that module; the same goes for etcd,
the two S3 servers and Google's emulator, which have a program. Conductor is one file, checked against its hash, then
unpacked and its classes archived, each of which about halves its start. Azurite is a package of Node's, with a lock of
all it needs.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.servers.azurite import AZURITE
from tests.support.servers.buckets import MINIO, VERSITYGW
from tests.support.servers.cache import ObtainError, Report
from tests.support.servers.commands import run
from tests.support.servers.conductor import CONDUCTOR, Conductor, classes
from tests.support.servers.etcd import ETCD
from tests.support.servers.fake_gcs import FAKE_GCS
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.toolchain import go, java, maven, npm

LAKEFS_MODULE = f"github.com/treeverse/lakefs@v{LAKEFS.version}"
LAKEFS_SUM = "h1:cODxuNUnDEFaueXRUI53G5tUq9FelXyR9A5Y9+WNWUk="
#: The fork is what lakeFS itself builds with; a ``replace`` of a dependency does not reach who depends on it.
GO_MOD = f"""module lakefs

go 1.26.4

require {LAKEFS_MODULE.replace("@", " ")}

replace github.com/csimplestring/delta-go => github.com/treeverse/delta-go v0.0.0-20260323095047-d2f80252d945
"""
MAIN_GO = """package main

import "github.com/treeverse/lakefs/cmd/lakefs/cmd"

func main() { cmd.Execute() }
"""

VERSITYGW_MODULE = f"github.com/versity/versitygw@v{VERSITYGW.version}"
VERSITYGW_SUM = "h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc="
MINIO_MODULE = f"github.com/minio/minio@v{MINIO.version}"
MINIO_SUM = "h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA="
FAKE_GCS_MODULE = f"github.com/fsouza/fake-gcs-server@v{FAKE_GCS.version}"
FAKE_GCS_SUM = "h1:K03sAvbLvDz4hAynpCCUqnNRp+ik9JFSvHbkD/wTPOU="

ETCD_MODULE = f"go.etcd.io/etcd/server/v3@v{ETCD.version}"
ETCD_SUM = "h1:KcTZ/aEZrOiQe0/kdr7iYYcvyfbEoOwDOacHkz8xwZc="
#: etcd's server is developed beside these, so that its own ``go.sum`` has them not.
ETCD_SIBLINGS = """\
go.etcd.io/etcd/api/v3 v3.7.3 h1:2tumepXe+wi7Wab64uUO71K7ISQyUWLGC1DJbbc59sY=
go.etcd.io/etcd/api/v3 v3.7.3/go.mod h1:HOR9Qn4gb/1/hVAmYprmlLpvTe6ZgfgNS9Z/+Ty65po=
go.etcd.io/etcd/client/pkg/v3 v3.7.3 h1:5zMwNu3ycrzCeA5NwOfQbxFRhqq974chq1DrYMua4QI=
go.etcd.io/etcd/client/pkg/v3 v3.7.3/go.mod h1:/OhzqYrF0U7d1NOk55VMyUQGbYD1WoIe4bJwxb47wOk=
go.etcd.io/etcd/client/v3 v3.7.3 h1:UrXcetgkuSEocaBlQlulQRJlXLEnUAHuBRbHh0lue1Q=
go.etcd.io/etcd/client/v3 v3.7.3/go.mod h1:DcPxpqcpV8WIaRi/2waPCx0/Uq8rQUweDJaDYZk1gEE=
go.etcd.io/etcd/pkg/v3 v3.7.3 h1:FoxH2JLECo/PYEHilgBFqz7Zlyiv5Sd20OlOOYESUos=
go.etcd.io/etcd/pkg/v3 v3.7.3/go.mod h1:KMluxIriMegJqCjcmNmt1rdzyzZHvzsojBGmkN0ArYI=
"""

CONDUCTOR_ARTIFACT = f"org.conductoross:conductor-server:{CONDUCTOR.version}:jar:boot"
CONDUCTOR_SHA256 = "6b1615a5beb82bbbfa05219d0f1b84440aa8c0bef1371662803ef5588d7d507b"
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def obtain_lakefs(report: Report) -> Path:
    return LAKEFS.place(lambda folder: _build_lakefs(folder, report), report)


def obtain_conductor(report: Report) -> Path:
    found = CONDUCTOR.place(lambda folder: _fetch_conductor(folder, report), report)
    classes().place(lambda folder: _archive_classes(folder, report), report)
    return found


def obtain_versitygw(report: Report) -> Path:
    program = f"{VERSITYGW_MODULE.partition('@')[0]}/cmd/versitygw"
    return VERSITYGW.place(
        lambda folder: build(folder / VERSITYGW.file, VERSITYGW_MODULE, VERSITYGW_SUM, program, report), report
    )


def obtain_minio(report: Report) -> Path:
    program = MINIO_MODULE.partition("@")[0]
    return MINIO.place(lambda folder: build(folder / MINIO.file, MINIO_MODULE, MINIO_SUM, program, report), report)


def obtain_fake_gcs(report: Report) -> Path:
    program = FAKE_GCS_MODULE.partition("@")[0]
    return FAKE_GCS.place(
        lambda folder: build(folder / FAKE_GCS.file, FAKE_GCS_MODULE, FAKE_GCS_SUM, program, report), report
    )


def obtain_etcd(report: Report) -> Path:
    return ETCD.place(lambda folder: _build_etcd(folder, report), report)


def obtain_azurite(report: Report) -> Path:
    return AZURITE.place(lambda folder: _install_azurite(folder, report), report)


def _install_azurite(folder: Path, report: Report) -> None:
    """Install it as its lock has it: npm checks each package against the hash there, and runs nothing of theirs."""
    lock = Path(__file__).parent / "azurite_lock"
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(lock / name, folder / name)
    install = [npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"]
    run("downloading 374 packages", install, folder, report)


OBTAIN: Mapping[str, Callable[[Report], Path]] = {
    "lakefs": obtain_lakefs,
    "conductor": obtain_conductor,
    "etcd": obtain_etcd,
    "versitygw": obtain_versitygw,
    "minio": obtain_minio,
    "azurite": obtain_azurite,
    "fake-gcs": obtain_fake_gcs,
}
#: What nobody gets who does not name it: it is worth minutes of building to ``make test-full`` only.
ON_REQUEST = frozenset({"fake-gcs"})


def _build_lakefs(folder: Path, report: Report) -> None:
    source = folder.parent / "source"
    source.mkdir()
    (source / "go.mod").write_text(GO_MOD, "utf-8")
    (source / "main.go").write_text(MAIN_GO, "utf-8")
    build(folder / LAKEFS.file, LAKEFS_MODULE, LAKEFS_SUM, ".", report)


def _build_etcd(folder: Path, report: Report) -> None:
    source = folder.parent / "source"
    source.mkdir()
    (source / "go.sum").write_text(ETCD_SIBLINGS, "utf-8")
    build(folder / ETCD.file, ETCD_MODULE, ETCD_SUM, ETCD_MODULE.partition("@")[0], report)


def build(made: Path, module: str, expected: str, program: str, report: Report) -> None:
    """Build a program of a module, beside which ``source`` may hold what is to be built instead, and more sums."""
    go_program = go(report)
    source, scrap = made.parents[1] / "source", made.parents[1] / "scrap"
    source.mkdir(exist_ok=True)
    scrap.mkdir()
    # A Go of its own choosing, the user's flags and C compilers: each would make another program of it.
    settings = {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0", "GOTMPDIR": str(scrap)}
    said = run("downloading the source", [go_program, "mod", "download", "-json", module], scrap, report, settings)
    found = json.loads(said)
    demand("the module's sum", found["Sum"], expected)
    if not (source / "go.mod").exists():
        path, _, version = module.partition("@")
        (source / "go.mod").write_text(f"module {made.name}\n\ngo 1.26.4\n\nrequire {path} {version}\n", "utf-8")
    with (source / "go.sum").open("ab") as sums:
        sums.write((Path(found["Dir"]) / "go.sum").read_bytes())
    build = [go_program, "build", "-mod=mod", "-trimpath", "-o", str(made), program]
    run("downloading and building, some minutes", build, source, report, settings)


def _fetch_conductor(folder: Path, report: Report) -> None:
    scrap = folder.parent
    copy = [maven(), "--quiet", "--batch-mode", MAVEN_COPY, f"-Dartifact={CONDUCTOR_ARTIFACT}"]
    options = [f"-DoutputDirectory={scrap}", "-Dmdep.stripVersion=true"]
    run("downloading 460 MB", [*copy, *options], scrap, report)
    jar = scrap / CONDUCTOR.file
    with jar.open("rb") as content:
        demand("the jar's SHA-256", hashlib.file_digest(content, "sha256").hexdigest(), CONDUCTOR_SHA256)
    unpack = [java(), "-Djarmode=tools", "-jar", str(jar), "extract", "--force", "--destination", str(folder)]
    run("unpacking", unpack, scrap, report)


def _archive_classes(folder: Path, report: Report) -> None:
    """Have a Conductor write down which classes it loads, and Java make them ready to be mapped."""
    scrap, loaded = folder.parent, folder.parent / "loaded"
    report("starting it once, to learn which classes it loads")
    with Conductor(folder=scrap / "data", machine=["-Xshare:off", f"-XX:DumpLoadedClassList={loaded}"]):
        pass
    files = [f"-XX:SharedClassListFile={loaded}", f"-XX:SharedArchiveFile={folder / classes().file}"]
    dump = [java(), "-Xmx1g", "-XX:+UseSerialGC", "-Xshare:dump", *files, "-cp", str(CONDUCTOR.path)]
    run("archiving these classes", dump, scrap, report)


def demand(what: str, found: str, expected: str) -> None:
    """Refuse what is not what was pinned."""
    if found != expected:
        raise ObtainError(f"expected {expected} as {what}; found {found}. It is not what was pinned: do not use it")
