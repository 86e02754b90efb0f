//! Compares numbers and values as JSON Schema does, by their meaning: `1` equals `1.0`.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Whether this is a whole number, in any notation.
pub(crate) fn is_integer(number: &Number) -> bool {
    matches!(Exact::from(number), Exact::Whole(_))
        || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Reads a number that counts something. 2.0 is accepted, and so is a number too large to be ever reached.
pub(crate) fn count(value: &Value) -> Option<u64> {
    let number = value.as_number().filter(|number| is_integer(number))?;
    let float = number.as_f64().filter(|float| *float >= 0.0)?;
    Some(number.as_u64().unwrap_or(float as u64))
}

/// Compares without rounding.
pub(crate) fn compare(left: &Number, right: &Number) -> Ordering {
    match (Exact::from(left), Exact::from(right)) {
        (Exact::Whole(left), Exact::Whole(right)) => left.cmp(&right),
        (Exact::Other(left), Exact::Other(right)) => {
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
        (Exact::Whole(left), Exact::Other(right)) => whole_to_other(left, right),
        (Exact::Other(left), Exact::Whole(right)) => whole_to_other(right, left).reverse(),
    }
}

/// Whether `number` is a multiple of `step`. Both are read as the decimals that are written.
///
/// In binary, 0.3 is no multiple of 0.1; for the author of a schema it is.
pub(crate) fn is_multiple(number: &Number, step: &Number) -> bool {
    if let (Some(number), Some(step)) = (number.as_i128(), step.as_i128()) {
        return step != 0 && number % step == 0;
    }
    let (mut digits, mut exponent) = decimal(number);
    let (step_digits, step_exponent) = decimal(step);
    if digits == 0 {
        return true;
    }
    while digits % 10 == 0 {
        digits /= 10;
        exponent += 1;
    }
    // The last digit is not 0, so a step with a higher exponent cannot divide it.
    if step_digits == 0 || exponent < step_exponent {
        return false;
    }
    let mut remainder = digits % step_digits;
    for _ in step_exponent..exponent {
        if remainder == 0 {
            return true;
        }
        remainder = remainder * 10 % step_digits;
    }
    remainder == 0
}

/// Whether two values are equal.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(left), Value::String(right)) => left == right,
        _ => order(left, right).is_eq(),
    }
}

/// Returns the indices of two items that are equal.
pub(crate) fn duplicate(items: &[Value]) -> Option<(usize, usize)> {
    let mut indices: Vec<_> = (0..items.len()).collect();
    indices.sort_by(|left, right| order(&items[*left], &items[*right]));
    indices
        .windows(2)
        .find(|pair| same(&items[pair[0]], &items[pair[1]]))
        .map(|pair| (pair[0], pair[1]))
}

/// Orders all values, in an arbitrary but fixed order.
fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => compare(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let pairs = || {
                left.iter()
                    .zip(right)
                    .map(|(left, right)| order(left, right))
            };
            left.len()
                .cmp(&right.len())
                .then_with(|| first_difference(pairs()))
        }
        (Value::Object(left), Value::Object(right)) => order_objects(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn order_objects(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    if left.len() != right.len() {
        return left.len().cmp(&right.len());
    }
    // Another crate in the build may turn on a feature of serde_json that keeps members in the order in which they came.
    let (mut left, mut right): (Vec<_>, Vec<_>) = (left.iter().collect(), right.iter().collect());
    left.sort_unstable_by_key(|(key, _)| *key);
    right.sort_unstable_by_key(|(key, _)| *key);
    let members = left.into_iter().zip(right);
    first_difference(
        members.map(|(left, right)| left.0.cmp(right.0).then_with(|| order(left.1, right.1))),
    )
}

fn first_difference(mut comparisons: impl Iterator<Item = Ordering>) -> Ordering {
    comparisons
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

enum Exact {
    Whole(i128),
    /// The number has a fraction, or is beyond `i128`.
    Other(f64),
}

impl From<&Number> for Exact {
    fn from(number: &Number) -> Self {
        if let Some(whole) = number.as_i128() {
            return Self::Whole(whole);
        }
        let float = number.as_f64().unwrap_or(f64::NAN);
        if float.fract() == 0.0 && float.abs() < BEYOND_I128 {
            Self::Whole(float as i128)
        } else {
            Self::Other(float)
        }
    }
}

fn whole_to_other(whole: i128, other: f64) -> Ordering {
    if other.abs() >= BEYOND_I128 {
        return if other > 0.0 {
            Ordering::Less
        } else {
            Ordering::Greater
        };
    }
    // `other` is strictly between its floor and the next whole number.
    if whole <= other.floor() as i128 {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

/// Returns the digits of the absolute value, and the power of ten that they are multiplied with.
fn decimal(number: &Number) -> (u128, i32) {
    let text = number.to_string();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole
        .trim_start_matches('-')
        .bytes()
        .chain(fraction.bytes());
    // A 64-bit number has at most 20 digits.
    let digits = digits.fold(0, |sum: u128, digit| {
        sum.wrapping_mul(10).wrapping_add(u128::from(digit - b'0'))
    });
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    (digits, exponent.parse().unwrap_or(0) - places)
}

/// 2^127
const BEYOND_I128: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn comparison_does_not_round() {
        for (left, right, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("-0.0", "0", Ordering::Equal),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            (
                "18446744073709551615",
                "18446744073709551616.0",
                Ordering::Less,
            ),
            ("18446744073709551615", "-1", Ordering::Greater),
            (
                "-9223372036854775808",
                "-9223372036854775808.0",
                Ordering::Equal,
            ),
            ("2", "2.5", Ordering::Less),
            ("-2", "-2.5", Ordering::Greater),
            ("3", "2.5", Ordering::Greater),
            ("1e300", "18446744073709551615", Ordering::Greater),
            ("-1e300", "0", Ordering::Less),
            ("1e300", "1e301", Ordering::Less),
            ("0.1", "0.2", Ordering::Less),
        ] {
            assert_eq!(
                compare(&number(left), &number(right)),
                expected,
                "{left} {right}"
            );
            assert_eq!(
                compare(&number(right), &number(left)),
                expected.reverse(),
                "{right} {left}"
            );
        }
    }

    #[test]
    fn multiples_are_decimal() {
        for (value, step) in [
            ("0.3", "0.1"),
            ("0", "0.7"),
            ("1e300", "3e299"),
            ("4.02", "0.01"),
            ("1e308", "1e-308"),
            ("-6", "1.5"),
            ("18446744073709551615", "5"),
            ("1e22", "7e21"),
            ("120", "1e1"),
            ("0.0075", "0.0001"),
        ] {
            let expected = !matches!(step, "3e299" | "7e21");
            assert_eq!(
                is_multiple(&number(value), &number(step)),
                expected,
                "{value} {step}"
            );
        }
        for (value, step) in [
            ("0.35", "0.1"),
            ("7", "2"),
            ("1", "1e1"),
            ("1e-9", "1"),
            ("0.00751", "0.0001"),
        ] {
            assert!(
                !is_multiple(&number(value), &number(step)),
                "{value} {step}"
            );
        }
    }

    #[test]
    fn whole_floats_are_integers() {
        assert!(
            ["1", "1.0", "-3.0", "1e300", "18446744073709551615"]
                .iter()
                .all(|text| is_integer(&number(text)))
        );
        assert!(
            ["1.5", "1e-7", "-0.1"]
                .iter()
                .all(|text| !is_integer(&number(text)))
        );
    }

    #[test]
    fn duplicates_are_found_by_meaning() {
        assert_eq!(
            duplicate(
                json!([1, true, "1", null, [], {}, false, 0])
                    .as_array()
                    .unwrap()
            ),
            None
        );
        assert_eq!(
            duplicate(
                json!([{ "a": 1, "b": 2 }, 3, { "b": 2.0, "a": 1.0 }])
                    .as_array()
                    .unwrap()
            ),
            Some((0, 2))
        );
        assert_eq!(
            duplicate(json!([[1, 2], [2, 1], [1]]).as_array().unwrap()),
            None
        );
        assert_eq!(
            duplicate(json!([{ "a": 1 }, { "b": 1 }]).as_array().unwrap()),
            None
        );
    }
}
