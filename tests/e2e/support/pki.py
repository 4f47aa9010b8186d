"""Makes certificates for tests with the `openssl` command."""
import subprocess


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    """A CA; its files are in `folder` and have its name."""

    def __init__(self, folder, name, subject="rollcall CA"):
        self.folder, self.name, self.count = folder, name, 0
        self.cert, self.key = f"{folder}/{name}.pem", f"{folder}/{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-days", 2, "-subj",
                f"/CN={subject}", "-keyout", self.key, "-out", self.cert)

    def issue(self, name, names="IP:127.0.0.1,DNS:localhost", days=2,
              subject="CN"):
        """Returns (certificate file, key file), in PEM, with `name` as subject.
        The certificate's file also has the CA's certificate, as daemons send
        it."""
        self.count += 1
        at = f"{self.folder}/{name}-by-{self.name}-{self.count}"
        with open(at + ".ext", "w", encoding="ascii") as f:
            f.write(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n"
                    "keyUsage=digitalSignature\n"
                    "extendedKeyUsage=serverAuth,clientAuth\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-subj", f"/{subject}={name}", "-keyout",
                at + ".key", "-out", at + ".csr")
        openssl("x509", "-req", "-in", at + ".csr", "-CA", self.cert, "-CAkey",
                self.key, "-set_serial", self.count, "-days", days, "-extfile",
                at + ".ext", "-out", at + ".pem")
        with open(self.cert, encoding="ascii") as f, \
                open(at + ".pem", "a", encoding="ascii") as out:
            out.write(f.read())
        return at + ".pem", at + ".key"
