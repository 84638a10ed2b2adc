"""Look up, open and write files by a path, or by an address such as s3://bucket/a.jsonl.

Addresses are those of fsspec (`esdedup[remote]`), which is imported for the first of them. Failures
of its packages, which have exceptions of all kinds, become errors that name the address.
"""

import io
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from esdedup.exceptions import EsdedupError, InputError, MissingExtra, StoreError, UsageError
from esdedup.stores.private_files import written_whole

AHEAD = 8 << 20
"""Bytes of a file at an address that one request fetches, if it is read in order."""
RETRY_SECONDS = (0.5, 1, 2, 4)
"""Seconds before a request of HTTP is repeated. The packages for other addresses retry."""
_CHANGING = ("ETag", "etag", "generation", "mtime", "LastModified", "Last-Modified", "created")
"""Properties that change with the content of a file, of which a file system has some."""
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "hdfs": "pyarrow", "abfs": "adlfs", "az": "adlfs"}
"""Packages that `esdedup[remote]` does not install."""


class Located(NamedTuple):
    """A file or a folder.

    size: bytes, None if unknown.
    stamp: text that changes with the content.
    is_folder: False for a file.
    """

    size: int | None
    stamp: str
    is_folder: bool


class SpooledPipe(str):
    """The path of a file that holds what a pipe has sent.

    name: of the pipe, as records have it.
    stamp: text that changes with the content.
    """

    name: str
    stamp: str

    @staticmethod
    def of(file: Path, name: str, stamp: str) -> "SpooledPipe":
        """Return the path of a file."""
        path = SpooledPipe(file)
        path.name, path.stamp = name, stamp
        return path


def is_address(path: str) -> bool:
    """Return whether a path is an address."""
    return "://" in path


def is_http(path: str) -> bool:
    """Return whether a path is an address of HTTP, which has no folders."""
    return path.startswith(("http://", "https://"))


def folder_of(path: str) -> str:
    """Return the folder that a file or a folder is in."""
    return path.rpartition("/")[0] if is_address(path) else str(Path(path).parent)


def canonical(path: str) -> str:
    """Return the same text for each spelling of a path or an address, without opening it."""
    if not is_address(path):
        return str(Path(path).resolve())
    with _reported(path):
        system, place = _system(path)
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    if protocol in ("file", "local"):
        return str(Path(place).resolve())
    return f"{protocol}://{place}"


def identity(path: str) -> str:
    """Return the same text for each name of a file, also for links on this machine."""
    place = canonical(path)
    if is_address(place):
        return place
    try:
        status = Path(place).stat()
    except (OSError, ValueError):
        return place
    return f"{status.st_dev} {status.st_ino}"


def look_up(path: str, refresh: bool = False) -> Located | None:
    """Return the file or folder at a path, or None. refresh: ignore earlier listings.

    Raises UsageError if the answer is refused, MissingExtra if a package is not installed.
    """
    if not is_address(path):
        try:
            status = Path(path).stat()
        except (OSError, ValueError):
            return None
        return Located(
            status.st_size,
            f"{status.st_size} {status.st_mtime_ns}",
            stat.S_ISDIR(status.st_mode),
        )
    with _reported(path):
        system, place = _system(path)
        if refresh:
            system.invalidate_cache(place)
        try:
            info = _repeated(partial(system.info, place))
        except FileNotFoundError as error:
            cause = _cause(error)
            if cause is error or getattr(cause, "status", 0) == 404:
                return None
            raise
        changing = next((info[key] for key in _CHANGING if info.get(key)), None)
        return Located(info["size"], f"{info['size']} {changing}", info["type"] == "directory")


def stamp(path: str) -> str:
    """Return text that changes with a file: its size, and its ETag or time of change."""
    if isinstance(path, SpooledPipe):
        return path.stamp
    located = look_up(path, refresh=True)
    if located is None:
        raise InputError(f"{path}: the file is gone")
    return located.stamp


def listed(address: str, is_folder: bool) -> list[str]:
    """Return the addresses of all files in a folder, recursively, or of those of a pattern."""
    with _reported(address):
        system, place = _system(address)
        system.invalidate_cache()
        names = (system.find if is_folder else system.glob)(place, detail=True)
        # `unstrip_protocol` leaves out the host of some file systems.
        host = address.rstrip("/").removesuffix(place)
        return [
            system.unstrip_protocol(name) if host.endswith(place) else host + name
            for name, info in names.items()
            if info["type"] == "file" and not name.endswith("/")
        ]


def remove(path: str, *, missing_ok: bool = False) -> None:
    """Remove a file, or a folder with all that it holds. Raises StoreError if that fails.

    missing_ok: return if there is none, or if another process removes it at the same time.
    """
    gone = [FileNotFoundError] if missing_ok else []
    if is_address(path):
        with _reported(path, StoreError), suppress(*gone):
            system, place = _system(path)
            system.rm(place, recursive=True)
        return
    try:
        with suppress(*gone):
            if Path(path).is_file():
                Path(path).unlink()
            else:
                shutil.rmtree(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


def open_file(path: str, ahead: int = AHEAD) -> BinaryIO:
    """Open a file to read. Raises UsageError if that fails; reading raises OSError.

    ahead: bytes of an address to fetch at least by one request. A connection that breaks is
    retried, and a file that ends before its size is an error.
    """
    if not is_address(path):
        try:
            return Path(path).open("rb")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    with _reported(path):
        system, place = _system(path)
        size = _repeated(partial(system.info, place))["size"]
        if size is None:
            raise UsageError("the server does not report the size of the file: download it first")
    content: Any = _Content(partial(system.cat_file, place), size)
    # The outer one serves `read1`, which reads no more than requested if a buffer is empty.
    return io.BufferedReader(io.BufferedReader(content, ahead)) if ahead else content


@contextmanager
def written(path: str, like: str | None = None, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file to write, which is there when it is whole. Raises StoreError.

    like: a path whose permissions it gets, and sync: as for `written_whole`; for files on this
    machine. The file of an address is uploaded at the end.
    """
    if not is_address(path):
        mode_of = None if like is None else Path(like)
        with written_whole(Path(path), mode_of, sync=sync) as local:
            yield local
        return
    if is_http(path):
        raise UsageError(f"{path}: HTTP is for reading only")
    with tempfile.TemporaryDirectory(prefix="esdedup-") as temporary:
        complete = Path(temporary, "whole")
        with written_whole(complete, sync=False) as local:
            yield local
        with _reported(path, StoreError):
            system, place = _system(path)
            folder, _, name = place.rpartition("/")
            # A store of objects shows an upload when it is complete; others rename files.
            beside = place if system.async_impl else f"{folder}/.{name}.tmp"
            system.put_file(str(complete), beside)
            if beside != place:
                system.mv(beside, place)


def content_of(path: str) -> bytes:
    """Return the content of a file. Raises UsageError or OSError."""
    with open_file(path) as file:
        return file.read()


def copy(path: str, to: str, like: str | None = None) -> None:
    """Copy a file, which is there when it is whole. Raises UsageError or StoreError.

    like: a path whose permissions the copy gets.
    """
    with open_file(path) as content, written(to, like) as out, _reported(path, StoreError):
        shutil.copyfileobj(content, out)


def created(path: str, content: bytes) -> bool:
    """Write a new file, and return True; False if there is one.

    Of several processes only one creates a file of S3, but two might elsewhere.
    """
    if look_up(path, refresh=True) is not None:
        return False
    if not is_address(path):
        with written(path) as out:
            out.write(content)
        return True
    with _reported(path, StoreError), suppress(FileExistsError):
        system, place = _system(path)
        system.pipe_file(place, content, mode="create")
        return True
    return False


class _Content(io.RawIOBase):
    """A file at an address, of which each read has all its bytes or raises OSError.

    fetch: returns the bytes from `start` to `end`.
    """

    def __init__(self, fetch: Callable[..., bytes], size: int) -> None:
        self._fetch, self._size, self._at = fetch, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def readall(self) -> bytes:
        return self._part(self._size)

    def readinto(self, buffer: Any) -> int:
        data = self._part(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _part(self, size: int) -> bytes:
        start, end = self._at, min(self._at + size, self._size)

        def request() -> bytes:
            data = self._fetch(start=start, end=end)
            if len(data) != end - start:
                raise EOFError(f"{len(data)} of {end - start} bytes came from byte {start} on")
            return data

        if start >= end:
            return b""
        try:
            data = _repeated(request)
        except Exception as error:
            raise OSError(_reason(error)) from error
        self._at = end
        return bytes(data)


def _system(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the place in it."""
    import fsspec

    # What is packed only for the way has neither a size nor parts.
    options = {"headers": {"Accept-Encoding": "identity"}} if is_http(address) else {}
    system, place = fsspec.url_to_fs(address, **options)
    return system, str(place)


@contextmanager
def _reported(address: str, kind: type[EsdedupError] = UsageError) -> Iterator[None]:
    """Raise failures of the packages for an address as errors that name it."""
    try:
        yield
    except ImportError as error:
        package = _PACKAGES.get(address.partition("://")[0], "")
        install = f"pip install 'esdedup[remote]' {package}".strip()
        raise MissingExtra(f"{address}: {error}: {install}") from error
    except Exception as error:
        raise kind(f"{address}: {_reason(error)}") from error


def _repeated(request: Callable[[], Any]) -> Any:
    """Return what a request returns, which is repeated while HTTP fails for now."""
    for seconds in RETRY_SECONDS:
        try:
            return request()
        except Exception as error:
            cause = _cause(error)
            status = getattr(cause, "status", 500)
            may_pass = type(cause).__module__.startswith("aiohttp") or isinstance(cause, EOFError)
            if not may_pass or (status < 500 and status not in (408, 429)):
                raise
        time.sleep(seconds)
    return request()


def _cause(error: Exception) -> BaseException:
    """Return why HTTP failed. To fsspec, a file is not found for whatever reason."""
    is_hidden = type(error.__cause__).__module__.startswith("aiohttp")
    return error.__cause__ if is_hidden and error.__cause__ else error


def _reason(error: Exception) -> str:
    """Return why a file can't be read or written."""
    cause = _cause(error)
    said = (str(cause) or type(cause).__name__).splitlines()[0]
    if isinstance(cause, FileNotFoundError):
        return f"there is no such file or bucket ({said})"
    if isinstance(cause, PermissionError) or getattr(cause, "status", 0) in (401, 403):
        return f"access was denied ({said}): check the credentials"
    return said
