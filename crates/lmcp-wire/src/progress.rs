//! `basic/patterns/progress` and `basic/patterns/cancellation`

use serde::{Deserialize, Serialize, Serializer};

use crate::jsonrpc::RequestId;

/// A token that the client chooses: a string or an integer, like a request id.
pub type ProgressToken = RequestId;

/// `params` of `notifications/progress`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProgressParams {
    /// The token of the request.
    pub progress_token: ProgressToken,
    /// The progress, which always grows.
    #[serde(serialize_with = "number")]
    pub progress: f64,
    /// The value of `progress` at the end, if it is known.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_number"
    )]
    pub total: Option<f64>,
    /// The step that is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl ProgressParams {
    /// Makes a report of the progress so far.
    pub fn new(progress_token: ProgressToken, progress: f64) -> Self {
        Self {
            progress_token,
            progress,
            total: None,
            message: None,
        }
    }
}

/// Writes a whole number without its `.0`: some clients print the number as it is.
fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// Every whole double up to this number is exact.
    const SAFE: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= SAFE {
        #[expect(clippy::cast_possible_truncation, reason = "checked in the line above")]
        return serializer.serialize_i64(*number as i64);
    }
    serializer.serialize_f64(*number)
}

fn some_number<S: Serializer>(some: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    number(&some.unwrap_or_default(), serializer)
}

/// `params` of `notifications/cancelled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CancelledParams {
    /// The request to stop.
    pub request_id: RequestId,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CancelledParams {
    /// Makes the parameters to stop this request.
    pub fn new(request_id: RequestId) -> Self {
        Self {
            request_id,
            reason: None,
        }
    }
}
