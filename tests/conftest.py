"""The profiles, and fixtures of all tests: a strict model provider on the loopback, its real clients, a browser."""

import os
import re
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import profiles
import pytest
from strict_provider.scripts import agent_script
from strict_provider.server import Provider, serve

from autoprune.apps.sessions import places

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="try every example, and run the tests that are marked `full`")
    parser.addoption(
        "--may-skip", metavar="REGEX", help="fail what is skipped unless its path or name matches; else all may skip"
    )


def pytest_configure(config: pytest.Config) -> None:
    profiles.choose("full" if config.getoption("--full") else "quick")
    # The developer's own files change nothing: neither defaults of the command line nor sessions of agents.
    os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_CACHE_HOME"] = os.devnull
    for variable in (*places.FOLDERS.values(), *places.HOMES.values()):
        os.environ.pop(variable, None)
    # A shell has what it starts in the background ignore Ctrl-C, and processes that tests interrupt would not end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of modules that only the full profile runs, unless they are named."""
    name = collection_path.relative_to(config.rootpath).as_posix()
    return None if profiles.is_full() or not f"{name}/".startswith(_left_out(config)) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if profiles.is_full():
        return
    long = [item for item in items if item.get_closest_marker("full") or item.nodeid.startswith(_left_out(config))]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


def _left_out(config: pytest.Config) -> tuple[str, ...]:
    """Return the beginnings of the modules that only the full profile runs, without those that were named."""
    paths = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    named = [f"{Path(os.path.relpath(path, config.rootpath)).as_posix()}/" for path in paths]
    return tuple(each for each in profiles.FULL_ONLY if not any(name.startswith(each) for name in named))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return failed_if_skipped(item.config, report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return failed_if_skipped(collector.config, report)


def failed_if_skipped(config: pytest.Config, report: Report) -> Report:
    """Return the report of a test or a module; one that was skipped and must not be has failed."""
    allowed = config.getoption("--may-skip")
    if report.outcome == "skipped" and allowed is not None and not re.search(allowed, report.nodeid):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and --may-skip does not name it: {report.longrepr}"
    return report


@pytest.fixture
def strict_provider() -> Iterator[Provider]:
    """A provider of every API that plays eight turns with tool calls in two tool loops.

    Another script: `strict_provider.play.script = …` before the first request. Alternation, as gateways want it:
    `strict_provider.play.strict_alternation = True`.
    """
    with serve(agent_script(8, seed=0, tasks=2)) as provider:
        yield provider


@pytest.fixture
def openai_client(strict_provider: Provider) -> Iterator[Any]:
    library = pytest.importorskip("openai")
    with library.OpenAI(base_url=f"{strict_provider.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic_client(strict_provider: Provider) -> Iterator[Any]:
    library = pytest.importorskip("anthropic")
    with library.Anthropic(base_url=strict_provider.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def gemini_client(strict_provider: Provider) -> Iterator[Any]:
    library = pytest.importorskip("google.genai")
    with library.Client(api_key="none", http_options={"base_url": strict_provider.url}) as client:
        yield client


@pytest.fixture
def bedrock_client(strict_provider: Provider) -> Iterator[Any]:
    library = pytest.importorskip("boto3")
    config = pytest.importorskip("botocore.config").Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
    client = library.client("bedrock-runtime", endpoint_url=strict_provider.url, config=config, **keys)
    yield client
    client.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not os.environ.get("BROWSER_REQUIRED"):
        pytest.importorskip("playwright")
        if found is None:
            pytest.skip("there is no chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--disable-gpu"])
        yield chromium
        chromium.close()
