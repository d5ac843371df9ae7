"""Gemini CLI: one variable, another one where it is logged in with a Google account."""

from autoprune.apps.clients._route import GEMINI, QUESTION, Client, Route, User, inside, is_on, led, with_env_file_of
from autoprune.errors import ClientError

ADDRESS, OF_LOGIN = "GOOGLE_GEMINI_BASE_URL", "CODE_ASSIST_ENDPOINT"
CODE_ASSIST = "https://cloudcode-pa.googleapis.com"
WITH_KEY = "gemini-api-key"


def route(user: User) -> Route:
    """Lead Gemini CLI by the variable of its login."""
    user = with_env_file_of(user, ".gemini", ADDRESS, OF_LOGIN)
    login = _login(user)
    if login in ("vertex-ai", "cloud-shell", "compute-default-credentials"):
        raise ClientError(
            f"Gemini CLI would go past the proxy with the login {login}: set GEMINI_API_KEY, and choose it under /auth"
        )
    name, usual = (OF_LOGIN, CODE_ASSIST) if login == "oauth-personal" else (ADDRESS, GEMINI)
    upstream, address = led(user, user.variable(name) or usual, name)
    return Route(upstream, {name: address}, user.arguments)


def _login(user: User) -> str:
    """Return how Gemini CLI is logged in: by its settings, the nearest first, or else by the variables."""
    for folder in (user.folder, user.home):
        settings = user.json(folder / ".gemini" / "settings.json")
        if chosen := inside(settings, "security", "auth", "selectedType") or settings.get("selectedAuthType"):
            return str(chosen)
    if is_on(user.variable("GOOGLE_GENAI_USE_GCA")):
        return "oauth-personal"
    return "vertex-ai" if is_on(user.variable("GOOGLE_GENAI_USE_VERTEXAI")) else WITH_KEY


CLIENT = Client(
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    install="npm install -g @google/gemini-cli",
    route=route,
    question=("-p", QUESTION),
    tried="0.61.0",
)
