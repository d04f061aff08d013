"""A model's files on the Hugging Face Hub: those in the Hub's cache, a download, an upload. Imports no torch.

The package huggingface_hub is the extra `hub`; `elmo.formats.hub` has the model itself.
"""

import sys
from pathlib import Path

from elmo.errors import InputError, in_one_line, pip_line
from elmo.formats import native
from elmo.formats.pull import is_offline

try:
    from huggingface_hub import HfApi, get_token, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.utils import disable_progress_bars, validate_repo_id  # type: ignore[attr-defined]
except ImportError as error:
    raise ImportError(f"the Hugging Face Hub needs huggingface_hub ({error}): {pip_line('hub')}") from error


def hide_progress() -> None:
    """Makes the Hub's library show no progress, which it does on a terminal alone."""
    disable_progress_bars()


def cached_folder(repository: str) -> Path | None:
    """Returns the folder of a repository's model in the Hub's cache; None if it is not there. Uses no network."""
    try:
        return Path(snapshot_download(repository, local_files_only=True, allow_patterns=list(native.FILES)))
    except (HFValidationError, LocalEntryNotFoundError):
        return None


def fetch(repository: str) -> Path:
    """Downloads a repository's model to the Hub's cache, or what has changed since; returns its folder.

    Raises InputError if there is no such model, or if the Hub cannot be reached.
    """
    if is_offline():
        raise InputError(f"{repository}: ELMO_OFFLINE is set, but a download needs the network")
    try:
        return Path(snapshot_download(repository, allow_patterns=list(native.FILES)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError, *_network_errors()) as error:
        raise InputError(f"{repository}: not available from the Hub ({' '.join(str(error).split())})") from error


def check_name(repository: str) -> None:
    """Raises InputError for a name that no Hub repository can have."""
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise InputError(f"{repository!r}: {in_one_line(error)}") from error
    if repository.count("/") != 1:
        raise InputError(f"{repository!r} is not a repository; user/name is expected")


def push(folder: Path, repository: str, private: bool = False, message: str | None = None) -> str:
    """Uploads a folder from `prepare`; returns the commit's address. The repository is created if necessary.

    Raises InputError if there is no token, or if the Hub refuses it or its card, or cannot be reached.
    """
    if is_offline():
        raise InputError("ELMO_OFFLINE is set, but a push needs the network")
    if get_token() is None:
        raise InputError("no token for the Hugging Face Hub; run `hf auth login`, or set HF_TOKEN")
    api = HfApi()
    try:
        made = api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=made.repo_id, folder_path=folder, commit_message=message or "Upload a model of elmo-torch"
        )
    except (HfHubHTTPError, OSError, ValueError, *_network_errors()) as error:
        why = " ".join(str(error).split())
        if "metadata in README.md" in why:  # a ValueError of the Hub's library
            why += "; correct --license, --language or the header of README.md"
        raise InputError(f"{repository}: {why}") from error
    return commit.commit_url


def _network_errors() -> tuple[type[Exception], ...]:
    """Errors of httpx or httpx2, which newer versions of the Hub's library use; those of requests are OSErrors."""
    modules = (sys.modules.get(name) for name in ("httpx", "httpx2"))
    return tuple(module.HTTPError for module in modules if module is not None)
