"""Users of a secured server, and what they may do."""

import json
import ssl
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urldefrag

import httpx

import esdedup
from esdedup.admin.roles import ROLES_PATHS, Product
from esdedup.stores.judgements import PREFIX, Judgement
from tests.helpers.commands import Ran, run_command
from tests.helpers.processes import await_true
from tests.servers.secured import ADMIN, PASSWORD, PASSWORD_HASH, basic


@dataclass(frozen=True)
class Secured:
    """A secured server. address: as `SecuredNode.url`."""

    product: Product
    address: str

    @property
    def url(self) -> str:
        return urldefrag(self.address).url

    @property
    def ca_file(self) -> str:
        return urldefrag(self.address).fragment

    @cached_property
    def _client(self) -> httpx.Client:
        context = ssl.create_default_context(cafile=self.ca_file)
        no_idle = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.url, verify=context, limits=no_idle, timeout=60)

    def request(
        self, method: str, path: str, body: Any = None, user: str = ADMIN
    ) -> tuple[int, Any]:
        """Return the status and the body of the answer. body: a list is sent as lines."""
        lines = body if isinstance(body, list) else [] if body is None else [body]
        data = "".join(json.dumps(line) + "\n" for line in lines)
        headers = {"content-type": "application/json", **basic(user)}
        answer = self._client.request(method, path, content=data or None, headers=headers)
        return answer.status_code, json.loads(answer.content or b"{}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The body of the answer to the administrator, who may do everything."""
        status, answer = self.request(method, path, body)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def make_user(self, user: str, *roles: dict[str, Any]) -> None:
        """Make a user with these roles, or return them to an existing one in place of others."""
        names = [f"{user}-{number}" for number, _ in enumerate(roles)]
        for name, role in zip(names, roles, strict=True):
            self._put(f"/{ROLES_PATHS[self.product]}/{name}", role)
        if self.product == "elasticsearch":
            known = {"password_hash": PASSWORD_HASH, "roles": names}
            self._put(f"/_security/user/{user}", known)
        else:
            known = {"hash": PASSWORD_HASH, "opendistro_security_roles": names}
            self._put(f"/_plugins/_security/api/internalusers/{user}", known)

    def _put(self, path: str, body: dict[str, Any]) -> None:
        def put() -> bool:
            status, answer = self.request("PUT", path, body)
            # OpenSearch keeps all roles in one document, which other tests change too.
            assert status < 300 or status == 409, f"{path}: {status} {answer}"
            return status != 409

        await_true(f"{path} is put", put)

    def forget(self, name: str) -> None:
        """Delete the indices of a test."""
        every = f"{name},{name}-to,{PREFIX}{name}"
        self.request("DELETE", f"/{every}?ignore_unavailable=true")

    def judge(self, name: str) -> None:
        """Keep a judgement about an index, which need not exist."""
        known: Any = {"username": ADMIN, "password": PASSWORD, "ca_certs": self.ca_file}
        with esdedup.open(self.url, name, **known) as index:
            digests = ("A" * 22, "B" * 21 + "A")
            made = Judgement("d0", "d2", "different", digests, esdedup.Normalisation())
            index.judgements.write([made])

    def run(self, *arguments: str, user: str = ADMIN, status: int | None = None) -> Ran:
        """Run a command in this process as a user. status: as of `run_command`."""
        environment = {
            "ESDEDUP_URL": self.url,
            "ESDEDUP_USERNAME": user,
            "ESDEDUP_PASSWORD": PASSWORD,
            "ESDEDUP_CA_CERTS": self.ca_file,
        }
        return run_command(*arguments, status=status, environment=environment)
