"""A node with security: TLS, users and roles, as its makers publish it."""

import json
import shutil
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.servers.node import Node
from tests.servers.proxy import credentials

ADMIN = "admin"
PASSWORD = "admin-secret"
"""Of the administrator, and of every user that tests make."""
PASSWORD_HASH = "$2a$04$abcdefghijklmnopqrstuuDVvoPMwAQmqTg8VbPf8aV1BPhRuKLTi"
"""bcrypt of PASSWORD with the least cost, because each request of a new user computes it."""

SETTINGS: dict[str, dict[str, Any]] = {
    "elasticsearch": {
        "xpack.security.enabled": True,
        "xpack.security.autoconfiguration.enabled": False,
        "xpack.security.enrollment.enabled": False,
        "xpack.license.self_generated.type": "basic",
        "xpack.security.authc.realms.file.file1.order": 0,
        "xpack.security.transport.ssl.verification_mode": "certificate",
        **{
            f"xpack.security.{layer}.ssl.{name}": value
            for layer in ("http", "transport")
            for name, value in {
                "enabled": True,
                "key": "node.key",
                "certificate": "node.pem",
                "certificate_authorities": ["ca.pem"],
            }.items()
        },
    },
    "opensearch": {
        "plugins.security.ssl.http.enabled": True,
        "plugins.security.ssl.transport.enforce_hostname_verification": False,
        "plugins.security.allow_default_init_securityindex": True,
        "plugins.security.nodes_dn": ["CN=node,OU=tests,O=esdedup"],
        "plugins.security.authcz.admin_dn": ["CN=nobody,OU=tests,O=esdedup"],
        "plugins.security.restapi.roles_enabled": ["all_access"],
        "plugins.security.audit.type": "noop",
        **{
            f"plugins.security.ssl.{layer}.{name}_filepath": file
            for layer in ("http", "transport")
            for name, file in {
                "pemcert": "node.pem",
                "pemkey": "node.key",
                "pemtrustedcas": "ca.pem",
            }.items()
        },
    },
}


def basic(user: str) -> dict[str, str]:
    """The header that names a user, whose password is PASSWORD."""
    return {"authorization": credentials(user, PASSWORD)}


class SecuredNode(Node):
    """A node that speaks TLS only and knows one user, the administrator."""

    secured = True
    _headers = basic(ADMIN)

    @property
    def url(self) -> str:
        """The address, and after a # the file of the authority that signed its certificate."""
        return f"https://127.0.0.1:{self.http_port}#{self._authority}"

    @property
    def _authority(self) -> Path:
        return self.home / "config" / "ca.pem"

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), **SETTINGS[self.product]}

    def _write_home(self) -> None:
        super()._write_home()
        config = self.home / "config"
        if not self._authority.exists():
            _write_certificates(config)
        if self.product == "elasticsearch":
            (config / "users").write_text(f"{ADMIN}:{PASSWORD_HASH}\n", encoding="utf-8")
            (config / "users_roles").write_text(f"superuser:{ADMIN}\n", encoding="utf-8")
            return
        security = config / "opensearch-security"
        shutil.copytree(self.installation.security_config, security, dirs_exist_ok=True)
        users = {ADMIN: {"hash": PASSWORD_HASH, "reserved": True, "backend_roles": [ADMIN]}}
        _write_security(security, "internal_users", "internalusers", users)
        # Without the mapping `own_index` of the distribution. It gives every user rights in the
        # whole cluster, which hides those that a role lacks.
        mapping = {"all_access": {"backend_roles": [ADMIN]}}
        _write_security(security, "roles_mapping", "rolesmapping", mapping)


def _write_security(folder: Path, file: str, kind: str, entries: dict[str, Any]) -> None:
    # JSON is YAML.
    document = {"_meta": {"type": kind, "config_version": 2}, **entries}
    (folder / f"{file}.yml").write_text(json.dumps(document), encoding="utf-8")


def _write_certificates(config: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert(
        "127.0.0.1",
        "localhost",
        common_name="node",
        organization_unit_name="tests",
        organization_name="esdedup",
    )
    authority.cert_pem.write_to_path(str(config / "ca.pem"))
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    (config / "node.pem").write_bytes(chain)
    # OpenSearch reads keys only in this form.
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    form = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (config / "node.key").write_bytes(form)
