//! Products of 128 bits, divided: counts and times keep the quotients within 64. And what they
//! leave: amounts with a rest.

/// A whole and a rest in parts of one: of a bucket's level, in tokens or microseconds.
pub(crate) type Amount = (u64, u64);

/// `⌊a · b / divisor⌋` and the remainder.
#[inline]
pub(crate) fn mul_div_rem(a: u64, b: u64, divisor: u64) -> Amount {
    // Most products are small, and a division of 64 bits is several times faster.
    if let Some(product) = a.checked_mul(b) {
        return (product / divisor.max(1), product % divisor.max(1));
    }
    wide_mul_div_rem(a, b, divisor)
}

#[cold]
fn wide_mul_div_rem(a: u64, b: u64, divisor: u64) -> Amount {
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

/// `amount` without `other`, at least 0; a whole has so many `parts`.
pub(crate) fn less(amount: Amount, other: Amount, parts: u64) -> Amount {
    if other >= amount {
        return (0, 0);
    }
    let borrow = u64::from(other.1 > amount.1);
    (amount.0 - other.0 - borrow, amount.1 + borrow * parts - other.1)
}
