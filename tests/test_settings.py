"""What the environment says, parsed once and refused loudly."""

from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.errors import ConfigError
from mem2evolve.settings import Settings, cache_dir, find_home


def test_an_empty_environment_gives_the_defaults(tmp_path: Path) -> None:
    """Everything local, nothing to configure."""
    settings = Settings.from_env({}, home=tmp_path)
    assert settings == Settings(home=tmp_path)
    assert (settings.model, settings.embedding) == ("embedded", "minilm")
    assert (settings.sandbox, settings.qdrant_url) == ("bubblewrap", None)
    assert settings.state_dir == tmp_path / ".mem2evolve"
    assert settings.tools_dir == tmp_path / "tools_generated"


def test_every_variable_is_read(tmp_path: Path) -> None:
    """Each lands in its own field."""
    env = {
        "MEM2EVOLVE_HOME": str(tmp_path),
        "MEM2EVOLVE_MODEL": "openai:gpt-5",
        "MEM2EVOLVE_EMBEDDING": "openai:text-embedding-3-small",
        "MEM2EVOLVE_SANDBOX": "unsafe-subprocess",
        "MEM2EVOLVE_PACKAGES": "numpy, Scikit_Learn,numpy,",
        "MEM2EVOLVE_FETCH_HOSTS": "API.example.org, h:81",
        "QDRANT_URL": "http://127.0.0.1:6333",
        "QDRANT_API_KEY": "secret",
    }
    assert Settings.from_env(env) == Settings(
        home=tmp_path,
        model="openai:gpt-5",
        embedding="openai:text-embedding-3-small",
        sandbox="unsafe-subprocess",
        packages=("numpy", "scikit-learn"),
        fetch_hosts=("api.example.org", "h:81"),
        qdrant_url="http://127.0.0.1:6333",
        qdrant_api_key="secret",
    )


def test_empty_variables_count_as_unset(tmp_path: Path) -> None:
    """As `VAR= command` means in a shell."""
    names = ["MODEL", "EMBEDDING", "SANDBOX", "PACKAGES", "FETCH_HOSTS"]
    env = {f"MEM2EVOLVE_{name}": "" for name in names} | {"QDRANT_URL": "", "OPENAI_API_KEY": ""}
    assert Settings.from_env(env, home=tmp_path) == Settings(home=tmp_path)


@pytest.mark.parametrize(
    ("env", "model"),
    [
        ({}, "embedded"),
        ({"OPENAI_API_KEY": "sk"}, "openai:gpt-5"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai:"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_API_KEY": "sk"}, "openai:"),
        ({"MEM2EVOLVE_MODEL": "embedded", "OPENAI_API_KEY": "sk"}, "embedded"),
    ],
)
def test_a_provider_implies_a_model(env: dict[str, str], model: str, tmp_path: Path) -> None:
    """A server is asked what it serves, a key means OpenAI, and a named model wins."""
    assert Settings.from_env(env, home=tmp_path).model == model


def test_arguments_win(tmp_path: Path) -> None:
    """The command line is closer than the environment."""
    env = {"MEM2EVOLVE_MODEL": "openai:a", "MEM2EVOLVE_HOME": "/elsewhere"}
    settings = Settings.from_env(env, home=tmp_path, model="openai:b")
    assert (settings.model, settings.home) == ("openai:b", tmp_path)


@given(st.text(min_size=1).filter(lambda text: text not in ("bubblewrap", "unsafe-subprocess")))
def test_an_unknown_sandbox_is_refused(value: str) -> None:
    """Naming the value and the choices: a typing error must not lower the guard."""
    with pytest.raises(ConfigError) as caught:
        Settings.from_env({"MEM2EVOLVE_SANDBOX": value}, home=Path("/home"))
    assert f"MEM2EVOLVE_SANDBOX={value!r}" in str(caught.value)
    assert "bubblewrap, unsafe-subprocess" in caught.value.hint


def test_the_key_is_not_shown(tmp_path: Path) -> None:
    """A printed settings object holds no secret."""
    assert "secret" not in repr(Settings(home=tmp_path, qdrant_api_key="secret"))


@pytest.mark.parametrize("mark", ["langgraph.json", ".mem2evolve"])
def test_home_is_the_nearest_marked_folder(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searched upward from the working directory."""
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "a" / "b"
    inner.mkdir(parents=True)
    if mark.endswith(".json"):
        (outer / mark).touch()
    else:
        (outer / mark).mkdir()
    monkeypatch.chdir(inner)
    assert find_home({}) == outer
    assert find_home({"MEM2EVOLVE_HOME": str(tmp_path / "named")}) == tmp_path / "named"


def test_home_is_the_users_without_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written into a folder that happens to be the working directory."""
    monkeypatch.chdir(tmp_path)
    assert find_home({}) == Path(platformdirs.user_data_dir("mem2evolve"))


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that changing the directory later does not move it; `~` is the user's folder."""
    monkeypatch.chdir(tmp_path)
    assert find_home({"MEM2EVOLVE_HOME": "here"}) == tmp_path / "here"
    assert Settings.from_env({}, home=Path("there")).home == tmp_path / "there"
    assert find_home({"MEM2EVOLVE_HOME": "~/x"}) == Path.home() / "x"


def test_the_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are large; some disks are not."""
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("MEM2EVOLVE_CACHE")
    assert cache_dir() == Path(platformdirs.user_cache_dir("mem2evolve"))


@pytest.mark.parametrize("name", ["numpy>=2", "../x", "-r file", "x[extra]", "x @ http://h", "é"])
def test_a_list_of_packages_holds_names_only(tmp_path: Path, name: str) -> None:
    """A version belongs into the tool that wants it."""
    with pytest.raises(ConfigError, match="which is not the name of a package") as caught:
        Settings.from_env({"MEM2EVOLVE_PACKAGES": f"other,{name}"}, home=tmp_path)
    assert "leave versions out" in caught.value.hint


@pytest.mark.parametrize("host", ["http://h", "h/path", "*", "*.org", "a b", "h:port", "u@h"])
def test_a_list_of_hosts_holds_hosts_only(tmp_path: Path, host: str) -> None:
    """No patterns, no addresses."""
    with pytest.raises(ConfigError, match="which is not a host"):
        Settings.from_env({"MEM2EVOLVE_FETCH_HOSTS": f"other.org,{host}"}, home=tmp_path)


def test_servers_of_a_home_that_was_only_found_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's checkout must not start programs because somebody stands in it."""
    (tmp_path / "langgraph.json").write_text("{}")
    (tmp_path / "mem2evolve.toml").write_text('[mcp_servers.a]\ncommand = "x"\n')
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match="only found"):
        Settings.from_env({})
    for named in (
        Settings.from_env({"MEM2EVOLVE_HOME": str(tmp_path)}),
        Settings.from_env({}, home=tmp_path),
    ):
        assert [one.name for one in named.mcp_servers] == ["a"]
