//! Points in time as people and machines write them.

use std::time::{Duration, SystemTime};

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    now_millis() / 1000
}

/// Returns the milliseconds since 1970.
pub(crate) fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, millis)
}

/// Returns a time in whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time as RFC 3339 in UTC, with a fraction if there is one.
pub(crate) fn rfc3339(seconds: i64, nanos: u32) -> String {
    let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match nanos {
        0 => String::new(),
        nanos => format!(".{nanos:09}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Returns the date so many days after 1970-01-01. Years begin in March here, so that the leap day is
/// the last.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Days are counted from 0000-03-01, in eras of 400 years, which are all alike.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Five months from March on always have 153 days.
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

const SECONDS_PER_DAY: i64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_everybody_writes_them() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(-1, 0), "1969-12-31T23:59:59Z");
        assert_eq!(rfc3339(951_782_400, 0), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(4_107_542_400, 0), "2100-03-01T00:00:00Z");
        assert_eq!(rfc3339(1_700_000_000, 5), "2023-11-14T22:13:20.000000005Z");
        assert_eq!(rfc3339(-62_167_219_200, 0), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let mut before = civil_from_days(-1);
        for days in 0..292_194 {
            let (year, month, day) = civil_from_days(days);
            let next_day = (before.0, before.1, before.2 + 1);
            let first_of_month = day == 1 && before.2 >= 28;
            assert!((year, month, day) == next_day || first_of_month, "{days}");
            before = (year, month, day);
        }
        assert_eq!(before, (2769, 12, 31));
    }
}
