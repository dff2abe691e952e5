//! ed25519 signatures of files: 64 bytes, over all bytes of the file and what it is used as.
//!
//! A signature of a policy must not approve the same bytes as machine code, which runs outside the
//! sandbox, nor as settings of another policy. So what is signed differs by [`Use`]. Signatures are
//! those of `openssl pkeyutl -sign -rawin`, and keys are in openssl's PEM format.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use phasemeter_terminal::escape::sanitize;

use crate::digest::hex;
pub use crate::error::SignatureError;

/// What a signed file is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use<'a> {
    /// A policy in WebAssembly, which is sandboxed. The file itself is signed.
    Policy,
    /// The settings in the file of this name. Signed are a prefix, the name, a zero byte and the file.
    Settings(&'a str),
    /// Machine code, which is not sandboxed. Signed are a prefix and the file.
    MachineCode,
}

/// Prefixes of signed messages. No WebAssembly begins with one.
const SETTINGS_PREFIX: &[u8] = b"phasemeter-settings-signature-1\0";
const MACHINE_CODE_PREFIX: &[u8] = b"phasemeter-aot-signature-1\0";

impl Use<'_> {
    /// The message that is signed for a file.
    fn message<'f>(self, file: &'f [u8]) -> Cow<'f, [u8]> {
        match self {
            Self::Policy => Cow::Borrowed(file),
            Self::Settings(name) => {
                Cow::Owned([SETTINGS_PREFIX, name.as_bytes(), b"\0", file].concat())
            }
            Self::MachineCode => Cow::Owned([MACHINE_CODE_PREFIX, file].concat()),
        }
    }
}

/// A trusted ed25519 public key, parsed from 64 hexadecimal digits or from PEM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl FromStr for PublicKey {
    type Err = ParsePublicKeyError;

    fn from_str(text: &str) -> Result<Self, ParsePublicKeyError> {
        let text = text.trim();
        let key = match hex(text) {
            Some(bytes) => VerifyingKey::from_bytes(&bytes).ok(),
            None => VerifyingKey::from_public_key_pem(text).ok(),
        };
        key.filter(|key| !key.is_weak()).map(Self).ok_or_else(|| ParsePublicKeyError::quoting(text))
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

/// The text is not a [`PublicKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid ed25519 public key '{0}': expected 64 hexadecimal digits, or the output of \
     'openssl pkey -pubout'"
)]
pub struct ParsePublicKeyError(String);

impl ParsePublicKeyError {
    /// Quotes the first line only, which identifies the text.
    fn quoting(text: &str) -> Self {
        Self(sanitize(text.lines().next().unwrap_or_default(), 80))
    }
}

/// An ed25519 private key, parsed from the PEM output of `openssl genpkey -algorithm ed25519`. It
/// has no `Debug` or `Display`, so it cannot be printed.
pub struct SecretKey(SigningKey);

impl FromStr for SecretKey {
    type Err = ParseSecretKeyError;

    fn from_str(pem: &str) -> Result<Self, ParseSecretKeyError> {
        SigningKey::from_pkcs8_pem(pem.trim()).map(Self).map_err(|_| ParseSecretKeyError)
    }
}

impl SecretKey {
    /// The public key that verifies its signatures.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a file.
    #[must_use]
    pub fn sign(&self, used_as: Use<'_>, file: &[u8]) -> [u8; 64] {
        self.0.sign(&used_as.message(file)).to_bytes()
    }
}

/// The text is not a [`SecretKey`]. The text is not quoted, because it may be another secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid ed25519 private key: expected the output of 'openssl genpkey -algorithm ed25519'")]
pub struct ParseSecretKeyError;

/// Verifies that one of `keys` signed a file for this use.
///
/// # Errors
/// Returns an error if there is no signature, it is malformed, or none of `keys` made it.
pub fn verify(
    keys: &[PublicKey],
    used_as: Use<'_>,
    file: &[u8],
    signature: Option<&[u8]>,
) -> Result<(), SignatureError> {
    let given = signature.ok_or(SignatureError::Missing)?;
    let signature =
        Signature::from_slice(given).map_err(|_| SignatureError::Malformed(given.len()))?;
    let message = used_as.message(file);
    let signed = keys.iter().any(|key| key.0.verify_strict(&message, &signature).is_ok());
    if signed { Ok(()) } else { Err(SignatureError::Untrusted) }
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
    fn verify_accepts_any_trusted_key() {
        let ((alice, a), (_, b)) = (key(1), key(2));
        let signature = alice.sign(b"policy").to_bytes();
        assert_eq!(verify(&[b, a], Use::Policy, b"policy", Some(&signature)), Ok(()));
        let untrusted = Err(SignatureError::Untrusted);
        assert_eq!(verify(&[b], Use::Policy, b"policy", Some(&signature)), untrusted);
        assert_eq!(verify(&[a], Use::Policy, b"Policy", Some(&signature)), untrusted);
        assert_eq!(verify(&[a], Use::Policy, b"policy", None), Err(SignatureError::Missing));
        assert_eq!(
            verify(&[a], Use::Policy, b"policy", Some(b"x")),
            Err(SignatureError::Malformed(1))
        );
    }

    #[test]
    fn signature_is_valid_for_one_use_only() {
        let secret = SecretKey(SigningKey::from_bytes(&[1; 32]));
        let uses =
            [Use::Policy, Use::Settings("a.json"), Use::Settings("b.json"), Use::MachineCode];
        for signed in uses {
            let signature = secret.sign(signed, b"file");
            for used in uses {
                let verified = verify(&[secret.public()], used, b"file", Some(&signature));
                assert_eq!(verified.is_ok(), signed == used, "{signed:?} as {used:?}");
            }
        }
    }

    /// A name cannot continue in the file.
    #[test]
    fn settings_signature_separates_name_and_file() {
        let secret = SecretKey(SigningKey::from_bytes(&[1; 32]));
        let signature = secret.sign(Use::Settings("a"), b"b");
        for (name, file) in [("ab", b"".as_slice()), ("", b"ab"), ("a", b"bb")] {
            let verified = verify(&[secret.public()], Use::Settings(name), file, Some(&signature));
            assert!(verified.is_err(), "{name}");
        }
    }

    #[test]
    fn public_key_parse_inverts_display() {
        let (_, public) = key(3);
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(format!("{public:?}"), format!("PublicKey({public})"));
        // The identity point: signatures by it can be forged.
        let weak = format!("01{}", "00".repeat(31));
        assert!(weak.parse::<PublicKey>().is_err());
    }

    /// The key pair of RFC 8410, section 10, as openssl prints it.
    #[test]
    fn keys_parse_from_openssl_pem() {
        let secret = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
            -----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\n\
            MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
            -----END PUBLIC KEY-----\n";
        let key: SecretKey = secret.parse().unwrap();
        assert_eq!(public.parse(), Ok(key.public()));
        let signature = key.sign(Use::Policy, b"policy");
        assert_eq!(verify(&[key.public()], Use::Policy, b"policy", Some(&signature)), Ok(()));
        assert_eq!(public.parse::<SecretKey>().err(), Some(ParseSecretKeyError));
        let error = secret.parse::<PublicKey>().unwrap_err().to_string();
        assert!(!error.contains("MC4CAQ"), "a secret was printed: {error}");
    }
}
