//! Who vouches for a file: an ed25519 signature over all its bytes, 64 bytes beside it.
//!
//! It is what `openssl pkeyutl -sign -rawin` writes, with keys as openssl writes them. This room
//! must not know what was signed.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::digest::hex;
use crate::fault::plain;

/// The key of someone whose policies are trusted, written as 64 hexadecimal digits or as PEM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl FromStr for PublicKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let text = text.trim();
        let key = match hex(text) {
            Some(bytes) => VerifyingKey::from_bytes(&bytes).ok(),
            None => VerifyingKey::from_public_key_pem(text).ok(),
        };
        key.filter(|key| !key.is_weak()).map(Self).ok_or_else(|| NotAKey::shown(text))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// The text is no [`PublicKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no ed25519 public key: give its 32 bytes as 64 hexadecimal digits, or what \
     'openssl pkey -pubout' writes"
)]
pub struct NotAKey(String);

impl NotAKey {
    /// The first line of a text is enough to know it by.
    fn shown(text: &str) -> Self {
        Self(plain(text.lines().next().unwrap_or_default(), 80))
    }
}

/// A key that signs, read from the PEM that `openssl genpkey -algorithm ed25519` writes. It shows
/// itself to nobody.
pub struct SecretKey(SigningKey);

impl FromStr for SecretKey {
    type Err = NotASecretKey;

    fn from_str(pem: &str) -> Result<Self, NotASecretKey> {
        SigningKey::from_pkcs8_pem(pem.trim()).map(Self).map_err(|_| NotASecretKey)
    }
}

impl SecretKey {
    /// The key that tells its signatures.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// The signature over these bytes.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }
}

/// The text is no [`SecretKey`]. What it is instead is not said: it may be another secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no ed25519 private key: give what 'openssl genpkey -algorithm ed25519' writes")]
pub struct NotASecretKey;

/// Why a file is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// There is no signature.
    #[error("it is not signed, and keys are configured: put its signature beside it, as .sig")]
    Missing,
    /// It has not the size of one.
    #[error("its signature has {0} bytes, and an ed25519 signature has 64")]
    Malformed(usize),
    /// No trusted key made it, or the file changed since.
    #[error("none of the configured keys signed it")]
    Untrusted,
}

/// Whether one of `keys` signed `bytes`.
///
/// # Errors
/// Why not.
pub fn verify(
    keys: &[PublicKey],
    bytes: &[u8],
    signature: Option<&[u8]>,
) -> Result<(), SignatureFault> {
    let given = signature.ok_or(SignatureFault::Missing)?;
    let signature =
        Signature::from_slice(given).map_err(|_| SignatureFault::Malformed(given.len()))?;
    let signed = keys.iter().any(|key| key.0.verify_strict(bytes, &signature).is_ok());
    if signed { Ok(()) } else { Err(SignatureFault::Untrusted) }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer, SigningKey};

    use super::*;

    fn key(seed: u8) -> (SigningKey, PublicKey) {
        let key = SigningKey::from_bytes(&[seed; 32]);
        let public = PublicKey(key.verifying_key());
        (key, public)
    }

    #[test]
    fn one_trusted_key_is_enough() {
        let ((alice, a), (_, b)) = (key(1), key(2));
        let signature = alice.sign(b"policy").to_bytes();
        assert_eq!(verify(&[b, a], b"policy", Some(&signature)), Ok(()));
        let untrusted = Err(SignatureFault::Untrusted);
        assert_eq!(verify(&[b], b"policy", Some(&signature)), untrusted);
        assert_eq!(verify(&[a], b"Policy", Some(&signature)), untrusted);
        assert_eq!(verify(&[a], b"policy", None), Err(SignatureFault::Missing));
        assert_eq!(verify(&[a], b"policy", Some(b"x")), Err(SignatureFault::Malformed(1)));
    }

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let (_, public) = key(3);
        assert_eq!(public.to_string().parse(), Ok(public));
        // The identity: every signature by it could be forged.
        let weak = format!("01{}", "00".repeat(31));
        assert!(weak.parse::<PublicKey>().is_err());
    }

    /// The pair of RFC 8410, section 10, as openssl writes it.
    #[test]
    fn keys_are_read_as_openssl_writes_them() {
        let secret = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
            -----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\n\
            MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
            -----END PUBLIC KEY-----\n";
        let key: SecretKey = secret.parse().unwrap();
        assert_eq!(public.parse(), Ok(key.public()));
        assert_eq!(verify(&[key.public()], b"policy", Some(&key.sign(b"policy"))), Ok(()));
        assert_eq!(public.parse::<SecretKey>().err(), Some(NotASecretKey));
        let refusal = secret.parse::<PublicKey>().unwrap_err().to_string();
        assert!(!refusal.contains("MC4CAQ"), "a secret was shown: {refusal}");
    }
}
