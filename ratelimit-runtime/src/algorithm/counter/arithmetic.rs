//! Products of 128 bits, divided. Counts and times keep the quotients within 64.

/// `⌊a · b / divisor⌋` and the remainder.
#[inline]
pub(crate) fn mul_div_rem(a: u64, b: u64, divisor: u64) -> (u64, u64) {
    // Most products are small, and a division of 64 bits is several times faster.
    if let Some(product) = a.checked_mul(b) {
        return (product / divisor.max(1), product % divisor.max(1));
    }
    wide_mul_div_rem(a, b, divisor)
}

#[cold]
fn wide_mul_div_rem(a: u64, b: u64, divisor: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    let divisor = u128::from(divisor.max(1));
    #[allow(clippy::cast_possible_truncation, reason = "the remainder is less than a divisor of 64 bits")]
    let rest = (product % divisor) as u64;
    (u64::try_from(product / divisor).unwrap_or(u64::MAX), rest)
}

/// `⌊a · b / divisor⌋`.
pub(crate) fn mul_div(a: u64, b: u64, divisor: u64) -> u64 {
    mul_div_rem(a, b, divisor).0
}

/// `⌈a · b / divisor⌉`.
pub(crate) fn mul_div_up(a: u64, b: u64, divisor: u64) -> u64 {
    let (quotient, rest) = mul_div_rem(a, b, divisor);
    quotient.saturating_add(u64::from(rest > 0))
}
