//! Numbers as people write them.

/// A word: decimal or, behind `0x`, hexadecimal; a negative one is its two's complement.
pub fn word(text: &str) -> Result<u64, String> {
    let parsed = match (text.strip_prefix("0x"), text.strip_prefix('-')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
        (None, Some(_)) => text.parse::<i64>().ok().map(i64::cast_unsigned),
        (None, None) => text.parse().ok(),
    };
    parsed.ok_or_else(|| "expected a number of 64 bits, such as 42, -1 or 0xff".into())
}

/// One word of a multi-commit: OFFSET:EXPECTED:NEW.
pub fn commit_word(text: &str) -> Result<[u64; 3], String> {
    let parts: Vec<_> = text.split(':').map(word).collect::<Result<_, _>>()?;
    parts
        .try_into()
        .map_err(|_| "expected OFFSET:EXPECTED:NEW, such as 8:0:1".into())
}

/// Bytes of hexadecimal digits, spaces between them as one likes.
pub fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?;
        // No sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(text, 16).ok().filter(|_| digits)
    };
    digits
        .chunks(2)
        .map(pair)
        .collect::<Option<_>>()
        .ok_or_else(|| "expected two hexadecimal digits for each byte, such as \"0a ff\"".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_hexadecimal_or_negative() {
        assert_eq!(word("42"), Ok(42));
        assert_eq!(word("0xff"), Ok(255));
        assert_eq!(word("-1"), Ok(u64::MAX));
        assert_eq!(word("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["", "x", "0x", "18446744073709551616", "-0x1", "1.5"] {
            assert!(word(wrong).is_err(), "{wrong}");
        }
        assert_eq!(commit_word("8:0:-1"), Ok([8, 0, u64::MAX]));
        for wrong in ["8:0", "8:0:1:2", "8::1"] {
            assert!(commit_word(wrong).is_err(), "{wrong}");
        }
        assert_eq!(hex("0a ff"), Ok(vec![10, 255]));
        for wrong in ["a", "0x0a", "+1", "zz"] {
            assert!(hex(wrong).is_err(), "{wrong}");
        }
    }
}
