"""Certificates of an authority of the tests' own, made with openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files; those of servers hold the key as well."""

    authority: Path
    server: Path
    """For localhost and 127.0.0.1."""
    elsewhere: Path
    """A certificate of the same authority, for another host."""
    stranger: Path
    """Another authority, which has signed nothing here."""


def make(folder: Path) -> Certificates:
    authority = _authority(folder, "authority")
    return Certificates(
        authority,
        _signed(folder, "server", "DNS:localhost,IP:127.0.0.1"),
        _signed(folder, "elsewhere", "DNS:elsewhere.example.com"),
        _authority(folder, "stranger"),
    )


def self_signed(path: Path, *hosts: str) -> Path:
    """Makes `path`: a key and its certificate for these names, which is trusted nowhere else."""
    names = ",".join(f"DNS:{host}" for host in hosts)
    key = path.with_suffix(".key")
    _openssl(
        *("req", "-x509", *KEY, "-days", "30", "-subj", f"/CN={hosts[0]}", "-addext", f"subjectAltName={names}"),
        *("-keyout", str(key), "-out", str(path)),
    )
    path.write_text(path.read_text() + key.read_text())
    return path


def _authority(folder: Path, name: str) -> Path:
    path = folder / f"{name}.pem"
    _openssl(
        *("req", "-x509", *KEY, "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(path.with_suffix(".key")), "-out", str(path)),
    )
    return path


def _signed(folder: Path, name: str, hosts: str) -> Path:
    path = folder / f"{name}.pem"
    request, key, extensions = (path.with_suffix(suffix) for suffix in (".csr", ".key", ".ext"))
    extensions.write_text(f"subjectAltName={hosts}\n")
    _openssl("req", "-new", *KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
    _openssl(
        *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extensions), "-out", str(path)),
        *("-CA", str(folder / "authority.pem"), "-CAkey", str(folder / "authority.key"), "-CAcreateserial"),
    )
    path.write_text(path.read_text() + key.read_text())
    return path


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
