"""Client options: Kafka's security settings as the clients take them."""

import ssl
import subprocess
from pathlib import Path

import pytest

from streams.kafka import client_options, security_context
from streams.kafka.faust_auth import faust_credentials
from streams.settings import Settings, SettingsError


def load(**flags: object) -> Settings:
    return Settings.load(flags, {})


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A self-signed certificate, its encrypted key, and the password's file."""
    home = tmp_path_factory.mktemp("tls")
    cert, key, password = home / "tls.crt", home / "tls.key", home / "password"
    password.write_text("hush-1234\n")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-days", "2", "-subj", "/CN=client"]
    command += ["-passout", "pass:hush-1234", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key, password


def test_plain_connection_needs_nothing() -> None:
    """No context, no credentials."""
    settings = load(bootstrap_servers="a:1, b:2", client_id="pathgate-0")
    assert client_options(settings) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "pathgate-0",
        "security_protocol": "PLAINTEXT",
        "ssl_context": None,
    }
    assert faust_credentials(settings) is None


def test_tls_verifies_certificates_and_names() -> None:
    """The default context trusts the system's authorities and checks the host."""
    context = security_context(load(security_protocol="SSL"))
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_unchecked_host_name_still_verifies_the_certificate() -> None:
    """Switching the name off switches off nothing else."""
    flags = {"security_protocol": "SSL", "ssl_check_hostname": "false"}
    context = security_context(load(**flags))
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_client_certificate_with_an_encrypted_key(
    certificate: tuple[Path, Path, Path],
) -> None:
    """Certificate, key and password come from files."""
    cert, key, password = certificate
    settings = load(
        security_protocol="SSL",
        ssl_ca_file=str(cert),
        ssl_cert_file=str(cert),
        ssl_key_file=str(key),
        ssl_key_password_file=str(password),
    )
    context = security_context(settings)
    assert context is not None
    assert [one["subject"] for one in context.get_ca_certs()] == [
        ((("commonName", "client"),),)
    ]


def test_encrypted_key_without_password_does_not_ask(
    certificate: tuple[Path, Path, Path],
) -> None:
    """A worker has no terminal: the error names the settings."""
    cert, key, _password = certificate
    settings = load(
        security_protocol="SSL", ssl_cert_file=str(cert), ssl_key_file=str(key)
    )
    with pytest.raises(SettingsError, match=r"ssl_cert_file, ssl_key_file: .*tls\.key"):
        security_context(settings)


def test_authority_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    """The setting and the file."""
    file = tmp_path / "ca.crt"
    file.write_text("no certificate")
    settings = load(security_protocol="SSL", ssl_ca_file=str(file))
    with pytest.raises(SettingsError, match=r"ssl_ca_file: .*ca\.crt: cannot be used"):
        security_context(settings)


def test_password_reaches_both_clients(tmp_path: Path) -> None:
    """The same user, mechanism and password for aiokafka and for Faust."""
    file = tmp_path / "password"
    file.write_text("hush-1234\n")
    settings = load(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="ann",
        sasl_password_file=str(file),
    )
    options = client_options(settings)
    assert (
        options["sasl_mechanism"],
        options["sasl_plain_username"],
        options["sasl_plain_password"],
    ) == ("SCRAM-SHA-512", "ann", "hush-1234")
    credentials = faust_credentials(settings)
    assert credentials is not None
    assert credentials.protocol.value == "SASL_SSL"
    assert (
        credentials.username,  # type: ignore[attr-defined]  # of the SASL kind
        credentials.password,  # type: ignore[attr-defined]  # as above
        credentials.mechanism.value,  # type: ignore[attr-defined]  # as above
    ) == ("ann", "hush-1234", "SCRAM-SHA-512")


def test_tls_alone_reaches_faust() -> None:
    """Its own class fails without a ready context."""
    credentials = faust_credentials(load(security_protocol="SSL"))
    assert credentials is not None
    assert credentials.protocol.value == "SSL"
