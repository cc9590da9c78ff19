// Certificates for tests alone: their private key is public. Unless noted, they are valid from 2020 to 2120.
#pragma once

#include <string>

#include "meshwork/runtime/transport/tls.h"
#include "support/temp_dir.h"

namespace meshwork {

// The authority that has signed the next four.
inline constexpr char kTestAuthority[] = R"(-----BEGIN CERTIFICATE-----
MIIBajCCARCgAwIBAgIQJwZlkp9be0OJ1ClxxKbecDAKBggqhkjOPQQDAjAcMRow
GAYDVQQDDBFtZXNod29yayB0ZXN0cyBjYTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIw
MDEwMTAwMDAwMFowHDEaMBgGA1UEAwwRbWVzaHdvcmsgdGVzdHMgY2EwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAAS/xvrZx9xX2pm6bYXAk6w/U7x8JADnChAlDSU3
YVB0Xcn/EIRUsqecPY5kRuCoGAejrjyrPoYafnYkR8MG49zsozIwMDAPBgNVHRMB
Af8EBTADAQH/MB0GA1UdDgQWBBS2fnyxkd4LkFUlRRPIMA/BUjKO4DAKBggqhkjO
PQQDAgNIADBFAiBPUnF9dV74r9ku4RFTu2EUZV6WXOPBPZQJ1vGe2g+BjQIhALBG
pHLXj9Wi10D8bYgKwIiooyuG4FmT396r6m2wJDV5
-----END CERTIFICATE-----
)";
// A certificate for localhost and 127.0.0.1.
inline constexpr char kTestCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBjjCCATSgAwIBAgIQJwZlkp9be0OJ1ClxxKbecTAKBggqhkjOPQQDAjAcMRow
GAYDVQQDDBFtZXNod29yayB0ZXN0cyBjYTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIw
MDEwMTAwMDAwMFowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEzHdCqnAfuG3p/le3RPG6Uy/qXeHKJ1vSwEGPL/a8BvpUuq/e
Gx/i4H26KAFIthOD0Opr8XcsfM9Q0gaEdH6t4KNeMFwwGgYDVR0RBBMwEYIJbG9j
YWxob3N0hwR/AAABMB0GA1UdDgQWBBTpsmuCJ1Ct0zp5xYkyWSbrfeP/VTAfBgNV
HSMEGDAWgBS2fnyxkd4LkFUlRRPIMA/BUjKO4DAKBggqhkjOPQQDAgNIADBFAiAq
RQiTttEt8v4iw3OoK4N7p3BOBG1DY7eVhtwWr8aWNAIhAJsKtVPdZp5ok7LvE+ks
luilOG1DNxwTIeEe2OWzDWUr
-----END CERTIFICATE-----
)";
// Certificates for the same hosts, valid until 2021-01-01, and from 2100-01-01 on.
inline constexpr char kExpiredCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBjTCCATKgAwIBAgIQJwZlkp9be0OJ1ClxxKbecjAKBggqhkjOPQQDAjAcMRow
GAYDVQQDDBFtZXNod29yayB0ZXN0cyBjYTAeFw0yMDAxMDEwMDAwMDBaFw0yMTAx
MDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABMx3QqpwH7ht6f5Xt0TxulMv6l3hyidb0sBBjy/2vAb6VLqv3hsf
4uB9uigBSLYTg9Dqa/F3LHzPUNIGhHR+reCjXjBcMBoGA1UdEQQTMBGCCWxvY2Fs
aG9zdIcEfwAAATAdBgNVHQ4EFgQU6bJrgidQrdM6ecWJMlkm633j/1UwHwYDVR0j
BBgwFoAUtn58sZHeC5BVJUUTyDAPwVIyjuAwCgYIKoZIzj0EAwIDSQAwRgIhAICE
yk446Xwsg/jUR6H4AUHlRzFcubyEnVFXbYlU5KXEAiEAwEH6SIT6dw88gzTEW+/G
gG/8kNWfQ+ryNyb4WNn/94E=
-----END CERTIFICATE-----
)";
inline constexpr char kEarlyCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBkDCCATagAwIBAgIQJwZlkp9be0OJ1ClxxKbedDAKBggqhkjOPQQDAjAcMRow
GAYDVQQDDBFtZXNod29yayB0ZXN0cyBjYTAiGA8yMTAwMDEwMTAwMDAwMFoYDzIx
MjAwMTAxMDAwMDAwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAATMd0KqcB+4ben+V7dE8bpTL+pd4conW9LAQY8v9rwG+lS6
r94bH+LgfbooAUi2E4PQ6mvxdyx8z1DSBoR0fq3go14wXDAaBgNVHREEEzARggls
b2NhbGhvc3SHBH8AAAEwHQYDVR0OBBYEFOmya4InUK3TOnnFiTJZJut94/9VMB8G
A1UdIwQYMBaAFLZ+fLGR3guQVSVFE8gwD8FSMo7gMAoGCCqGSM49BAMCA0gAMEUC
IGMuuVXy/1lvFb+tlDHCzrwDnXLdx0UP+EAREgufGI0tAiEAtPc43KKRrV/OsSyt
xFs3Xt4j52W1W+V/qYpNPzfnr0k=
-----END CERTIFICATE-----
)";
// A certificate for elsewhere.invalid.
inline constexpr char kElsewhereCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBmDCCAT6gAwIBAgIQJwZlkp9be0OJ1ClxxKbeczAKBggqhkjOPQQDAjAcMRow
GAYDVQQDDBFtZXNod29yayB0ZXN0cyBjYTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIw
MDEwMTAwMDAwMFowHDEaMBgGA1UEAwwRZWxzZXdoZXJlLmludmFsaWQwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAATMd0KqcB+4ben+V7dE8bpTL+pd4conW9LAQY8v
9rwG+lS6r94bH+LgfbooAUi2E4PQ6mvxdyx8z1DSBoR0fq3go2AwXjAcBgNVHREE
FTATghFlbHNld2hlcmUuaW52YWxpZDAdBgNVHQ4EFgQU6bJrgidQrdM6ecWJMlkm
633j/1UwHwYDVR0jBBgwFoAUtn58sZHeC5BVJUUTyDAPwVIyjuAwCgYIKoZIzj0E
AwIDSAAwRQIgV5Meopy077/paduZm50C9Nsa+PJJhL7PiaVjISRurt8CIQC2DPqa
3XT1FkC+GtTfkZUCVmtVsuKZBo7gG28o714MoQ==
-----END CERTIFICATE-----
)";
// The key of all certificates but those of the authorities.
inline constexpr char kTestKey[] = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgOy1N/VfDDCSe+wnv
P5AVy48HuMcTnjHBDaMJ2ZO/pwehRANCAATMd0KqcB+4ben+V7dE8bpTL+pd4con
W9LAQY8v9rwG+lS6r94bH+LgfbooAUi2E4PQ6mvxdyx8z1DSBoR0fq3g
-----END PRIVATE KEY-----
)";
// A certificate for localhost and 127.0.0.1, its own authority, made as in docs/security.md.
inline constexpr char kOwnAuthority[] = R"(-----BEGIN CERTIFICATE-----
MIIBajCCARCgAwIBAgIQJwZlkp9be0OJ1ClxxKbedTAKBggqhkjOPQQDAjAOMQww
CgYDVQQDDANqb2IwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMA4x
DDAKBgNVBAMMA2pvYjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABMx3QqpwH7ht
6f5Xt0TxulMv6l3hyidb0sBBjy/2vAb6VLqv3hsf4uB9uigBSLYTg9Dqa/F3LHzP
UNIGhHR+reCjTjBMMB0GA1UdDgQWBBTpsmuCJ1Ct0zp5xYkyWSbrfeP/VTAPBgNV
HRMBAf8EBTADAQH/MBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjO
PQQDAgNIADBFAiAFpn3PlOwT+bhxXMO+uqvaxem8zgv6ng0yxvdIQ4hNOwIhAOyz
BejbinGaHE6i3+VTuGzAb/Y0ZlUC9UamsdICupuH
-----END CERTIFICATE-----
)";
// Another authority, and a certificate that it has signed for localhost and 127.0.0.1.
inline constexpr char kOtherAuthority[] = R"(-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIRAOlTie0NgootI5WVBPO+c6AwCgYIKoZIzj0EAwIwHzEd
MBsGA1UEAwwUbWVzaHdvcmsgdGVzdHMgb3RoZXIwIBcNMjAwMTAxMDAwMDAwWhgP
MjEyMDAxMDEwMDAwMDBaMB8xHTAbBgNVBAMMFG1lc2h3b3JrIHRlc3RzIG90aGVy
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWUiaVubJ7dQDyqkXiiTrtVUv2r5G
BihYFMgUcSOCg56U4I/+SYxkos6L+BgvXvVFS+XMQL+FRiYbxrZuCC5y+KMyMDAw
DwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQU/S/Jf08MXbElDZxtpk82n8Pawfsw
CgYIKoZIzj0EAwIDSQAwRgIhAMIREH1xBg5GaGHRakyRlPMjMYDbjvfTZcwDqvHt
KCYTAiEAlAEoLiIzd3UGBbs8TV2lOk3SxTa71ZVJzL10pg7tjLA=
-----END CERTIFICATE-----
)";
inline constexpr char kOtherCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBkzCCATigAwIBAgIRAOlTie0NgootI5WVBPO+c6EwCgYIKoZIzj0EAwIwHzEd
MBsGA1UEAwwUbWVzaHdvcmsgdGVzdHMgb3RoZXIwIBcNMjAwMTAxMDAwMDAwWhgP
MjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABMx3QqpwH7ht6f5Xt0TxulMv6l3hyidb0sBBjy/2vAb6
VLqv3hsf4uB9uigBSLYTg9Dqa/F3LHzPUNIGhHR+reCjXjBcMBoGA1UdEQQTMBGC
CWxvY2FsaG9zdIcEfwAAATAdBgNVHQ4EFgQU6bJrgidQrdM6ecWJMlkm633j/1Uw
HwYDVR0jBBgwFoAU/S/Jf08MXbElDZxtpk82n8PawfswCgYIKoZIzj0EAwIDSQAw
RgIhALfonpTmMjjTEZAXW2zXRD+VysQM4UsRGu/rmTTK5QhAAiEAg0u1tFH9nPOf
rJVCXTHJ9fRa3jQIzCQChjpFdgGJB4Y=
-----END CERTIFICATE-----
)";

// Tests with these files in their folder.
class TlsTest : public TempDirTest {
 protected:
  TlsTest() : key_(File("server.key", kTestKey)), authorities_(File("ca.pem", kTestAuthority)) {}

  TlsFiles ServerOf(const char* certificate) const {
    return {.certificate = File("server.pem", certificate), .key = key_};
  }
  // Files of a server, and of a server that asks for certificates of kTestAuthority.
  TlsFiles Server() const { return ServerOf(kTestCertificate); }
  TlsFiles StrictServer() const {
    TlsFiles files = Server();
    files.client_authorities = authorities_;
    return files;
  }
  // Files of a client that trusts kTestAuthority, and of a client that also shows `certificate`.
  TlsFiles Client() const { return {.authorities = authorities_}; }
  TlsFiles ClientOf(const char* certificate) const {
    return {.certificate = File("client.pem", certificate), .key = key_, .authorities = authorities_};
  }

  const std::string key_, authorities_;
};

}  // namespace meshwork
