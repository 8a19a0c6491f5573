//! Formats numbers for people.

/// Formats a number with `decimals` decimals, and with separators between thousands.
pub(crate) fn decimals(number: f64, decimals: usize) -> String {
    if !number.is_finite() {
        return not_finite(number).into();
    }
    let text = format!("{:.decimals$}", number.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    // Write no sign before a number that is rounded to zero.
    let negative = number < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let mut out = String::from(if negative { "-" } else { "" });
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// Formats a number with at least `digits` significant digits. Very large and very small numbers
/// are written with a power of ten and exactly `digits` digits.
pub(crate) fn significant(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        return not_finite(number).into();
    }
    if number == 0.0 {
        return "0".into();
    }
    let digits = digits.clamp(1, 17);
    let (mantissa, exponent) = scientific(number, digits);
    if (-4..15).contains(&exponent) {
        let after = digits.saturating_add_signed(-1 - exponent as isize);
        return decimals(number, after);
    }
    format!("{mantissa}×{}", power(10, exponent))
}

/// Formats a number with at most `digits` significant digits, and without trailing zeros. Integers
/// keep all their digits.
pub(crate) fn short(number: f64, digits: usize) -> String {
    let text = significant(number, digits);
    let (mantissa, rest) = text.split_at(text.find('×').unwrap_or(text.len()));
    if mantissa.contains('.') {
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        return format!("{mantissa}{rest}");
    }
    text
}

/// Formats a number with an SI prefix and at most `digits` digits.
pub(crate) fn prefixed(number: f64, digits: usize) -> String {
    let (factor, prefix) = prefix(number);
    short(number / factor, digits) + prefix
}

/// Returns the factor and name of the SI prefix that suits a number.
pub(crate) fn prefix(number: f64) -> (f64, &'static str) {
    const PREFIXES: [(f64, &str); 8] = [
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "µ"),
        (1e-9, "n"),
    ];
    if number == 0.0 || !number.is_finite() {
        return (1.0, "");
    }
    // Tolerate a rounding error, so that 999.9999999 gets the prefix of 1000.
    let fits = |factor: f64| number.abs() >= factor * (1.0 - 1e-9);
    PREFIXES.into_iter().find(|(factor, _)| fits(*factor)).unwrap_or(PREFIXES[7])
}

/// Formats a power, such as 10⁻³.
pub(crate) fn power(base: u32, exponent: i32) -> String {
    let raised = |letter| match letter {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        // The other superscript digits are consecutive.
        digit => char::from_u32(digit as u32 - '0' as u32 + '⁰' as u32).unwrap_or(digit),
    };
    format!("{base}{}", exponent.to_string().chars().map(raised).collect::<String>())
}

fn scientific(number: f64, digits: usize) -> (String, i32) {
    let text = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').expect("scientific notation has an e");
    (mantissa.into(), exponent.parse().expect("exponents are whole numbers"))
}

fn not_finite(number: f64) -> &'static str {
    match number {
        f64::INFINITY => "∞",
        f64::NEG_INFINITY => "-∞",
        _ => "not a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_and_zero_has_no_sign() {
        assert_eq!(decimals(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(decimals(-1234.0, 0), "-1,234");
        assert_eq!(decimals(-0.001, 2), "0.00");
        assert_eq!(decimals(999.0, 0), "999");
    }

    #[test]
    fn significant_prints_the_requested_number_of_digits() {
        assert_eq!(significant(9.999, 3), "10.0");
        assert_eq!(significant(0.001_953, 3), "0.00195");
        assert_eq!(significant(1.953e-6, 3), "1.95×10⁻⁶");
        assert_eq!(significant(123_456.0, 3), "123,456");
        assert_eq!(significant(0.0, 3), "0");
        assert_eq!(significant(f64::NAN, 3), "not a number");
    }

    #[test]
    fn short_numbers_have_no_trailing_zeros() {
        assert_eq!(short(0.5, 6), "0.5");
        assert_eq!(short(100.0, 3), "100");
        assert_eq!(short(2.5e20, 6), "2.5×10²⁰");
    }

    #[test]
    fn numbers_have_the_nearest_si_prefix() {
        assert_eq!(prefixed(12_345_678.0, 3), "12.3M");
        assert_eq!(prefixed(0.000_25, 3), "250µ");
        assert_eq!(prefixed(0.0, 3), "0");
        assert_eq!(prefixed(1e-12, 3), "0.001n");
    }
}
