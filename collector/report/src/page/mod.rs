//! The report as a page: one HTML file with everything in it, made from the JSON report alone.
//!
//! A browser draws it with the script in the page. The policy in its head allows that script and style only, and no
//! request, so text of a report can do nothing even if it became markup.

/// The page, with a mark for each part.
const TEMPLATE: &str = include_str!("page.html");

/// Mark of the JSON report.
const REPORT: &str = "@REPORT@";

const STYLE: &str = include_str!("page.css");

const SCRIPT: &str = concat!(
    include_str!("format.js"),
    include_str!("timeline.js"),
    include_str!("sections.js"),
    include_str!("page.js"),
);

/// SHA-256 of style and script, by which the page's policy allows them.
const STYLE_HASH: &str = "sha256-lLRrn+1miTI/1+5LnA0PvMWBT2/Nc6jmmLS52MyPze0=";
const SCRIPT_HASH: &str = "sha256-0Hu320MD6gCtXBuv/0tVghWDODiBIF+lfUMI2uxh1u8=";

/// The page of a JSON report, which must be valid.
#[must_use]
pub fn of(json: &[u8]) -> Vec<u8> {
    let page = TEMPLATE
        .replace("@STYLE_HASH@", STYLE_HASH)
        .replace("@SCRIPT_HASH@", SCRIPT_HASH)
        .replace("@STYLE@", STYLE)
        .replace("@SCRIPT@", SCRIPT);
    let (before, after) = page.split_once(REPORT).unwrap_or((&page, ""));
    [before.as_bytes(), &embedded(json), after.as_bytes()].concat()
}

/// JSON that can stand in a script of HTML, as which it has the same meaning. Space between its tokens is left out.
fn embedded(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, &byte) in json.iter().enumerate() {
        match byte {
            b'"' if !is_escaped => in_string = !in_string,
            b' ' | b'\n' | b'\r' | b'\t' if !in_string => continue,
            // Tags and comments of HTML.
            b'<' | b'>' | b'&' => {
                out.extend(format!("\\u{byte:04x}").bytes());
                continue;
            }
            _ => {}
        }
        is_escaped = in_string && byte == b'\\' && !is_escaped;
        // U+2028 and U+2029 end lines of older scripts.
        match json.get(at..at + 3) {
            Some([0xe2, 0x80, 0xa8]) => out.extend(b"\\u2028"),
            Some([0xe2, 0x80, 0xa9]) => out.extend(b"\\u2029"),
            _ if is_separator_rest(json, at) => {}
            _ => out.push(byte),
        }
    }
    out
}

/// Whether this is the second or third byte of U+2028 or U+2029.
fn is_separator_rest(json: &[u8], at: usize) -> bool {
    let starts = [at.checked_sub(1), at.checked_sub(2)];
    let is_separator =
        |start: usize| matches!(json.get(start..start + 3), Some([0xe2, 0x80, 0xa8 | 0xa9]));
    starts.into_iter().flatten().any(is_separator)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use sha2::{Digest, Sha256};

    use super::*;

    /// As in an attribute of HTML and a policy.
    fn hash(text: &str) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digest = Sha256::digest(text);
        let mut base64 = String::new();
        for group in digest.chunks(3) {
            let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - group.len()));
            for digit in 0..4 {
                let index = (bits >> (18 - 6 * digit) & 63) as usize;
                base64.push(if digit > group.len() { '=' } else { char::from(DIGITS[index]) });
            }
        }
        format!("sha256-{base64}")
    }

    /// If a style or script changes, so do the constants.
    #[test]
    fn policy_allows_style_and_script() {
        assert_eq!(hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        assert_eq!((STYLE_HASH, SCRIPT_HASH), (&*hash(STYLE), &*hash(SCRIPT)));
    }

    #[test]
    fn parts_of_the_page_stand_once_and_request_nothing() {
        let page = of(b"{\n  \"title\": \"a </script> b\"\n}\n");
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("id=\"report\">{\"title\":\"a \\u003c/script\\u003e b\"}</script>"));
        assert_eq!(page.matches("</script>").count(), 2);
        for mark in ["@REPORT@", "@STYLE@", "@SCRIPT@", "_HASH@"] {
            assert!(!page.contains(mark), "{mark}");
        }
        for request in
            ["src=", "@import", "url(h", "url(\"", "fetch(", "XMLHttpRequest", "innerHTML"]
        {
            assert!(!page.contains(request), "{request}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    proptest! {
        /// Whatever a report says: it reads back the same, and cannot end its script.
        #[test]
        fn embedded_json_is_the_same_and_cannot_end_its_script(
            text in "(</script|<!--|[\u{2028}\u{2029}\\\\\"<>&\n é\u{e000}\u{10ffff}]|[a-z ]){0,20}",
        ) {
            let value = serde_json::json!({"<a>": [text, 1.5, null], text.clone(): {}});
            let json = serde_json::to_vec_pretty(&value).unwrap();
            let embedded = embedded(&json);
            prop_assert_eq!(serde_json::from_slice::<Value>(&embedded).unwrap(), value);
            let embedded = String::from_utf8(embedded).unwrap();
            prop_assert!(!embedded.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{}", embedded);
        }
    }
}
