//! The body of a request: read within its limits of size and time, and counted as memory of its caller as it grows.

use std::pin::{Pin, pin};

use bytes::{Buf, Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use lmcp_core::{Caller, NoRoom, Reservation};
use lmcp_wire::RpcError;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    body::Body,
    post::{Refusal, close},
    service::Shared,
};

/// Up to this size a body is not counted: there is no more than one for each connection.
const SMALL: usize = 4096;

/// What is reserved at first for a body that is not small.
const FIRST: usize = 64 << 10;

/// The whole body. A large one holds the memory that was reserved for it.
pub(crate) async fn read<B>(body: B, shared: &Shared, caller: &Caller) -> Result<Bytes, Refusal>
where
    B: http_body::Body,
    B::Data: Buf,
{
    let limits = &shared.limits;
    let most = limits.body_bytes;
    let size = body.size_hint();
    if size.lower() > most as u64 {
        return Err(too_large(most));
    }
    let known = size.exact().and_then(|size| usize::try_from(size).ok());
    let mut body = pin!(body);
    let reading = async {
        let mut reading = Reading {
            shared,
            caller,
            most: known.unwrap_or(most),
            room: None,
        };
        let whole = reading.collect(body.as_mut()).await?;
        Ok(match reading.room {
            Some(mut reserved) => {
                reserved.shrink_to(whole.len());
                reserved.hold(whole)
            }
            None => whole,
        })
    };
    match timeout(limits.body_wait, reading).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(Unread::TooLarge)) => Err(too_large(most)),
        Ok(Err(Unread::Broken)) => Err((
            StatusCode::BAD_REQUEST,
            RpcError::parse("the body broke off"),
        )),
        Ok(Err(Unread::NoRoom(no_room))) => {
            // The rest is read and thrown away: then the connection can go on.
            let skipped = timeout(limits.body_wait, skip(body, most)).await;
            let fits_later = no_room.retriable && matches!(skipped, Ok(Some(())));
            let status = if fits_later {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::PAYLOAD_TOO_LARGE
            };
            Err((status, no_room.into()))
        }
        Err(_) => {
            let seconds = limits.body_wait.as_secs();
            let error = RpcError::parse(format!("the body did not arrive within {seconds} s"));
            Err((StatusCode::REQUEST_TIMEOUT, error))
        }
    }
}

/// Answers somebody who may not. The body is read, for a client that is still writing may not see an answer, but
/// nothing of it is kept.
pub(crate) async fn turn_away<B>(
    mut response: Response<Body>,
    body: B,
    shared: &Shared,
) -> Response<Body>
where
    B: http_body::Body,
    B::Data: Buf,
{
    let body = pin!(body);
    let skipped = skip(body, shared.limits.body_bytes);
    if !matches!(
        timeout(shared.limits.body_wait, skipped).await,
        Ok(Some(()))
    ) {
        close(&mut response);
    }
    response
}

/// Reads a body to its end and keeps nothing. `None`: it is too long.
async fn skip<B>(mut body: Pin<&mut B>, most: usize) -> Option<()>
where
    B: http_body::Body,
    B::Data: Buf,
{
    let mut left = most;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Buf::remaining);
        left = left.checked_sub(length)?;
    }
    Some(())
}

enum Unread {
    TooLarge,
    Broken,
    NoRoom(NoRoom),
}

/// A body that is being read.
struct Reading<'a> {
    shared: &'a Shared,
    caller: &'a Caller,
    /// The most it can become.
    most: usize,
    /// What is reserved for it.
    room: Option<Reservation>,
}

impl Reading<'_> {
    async fn collect<B>(&mut self, mut body: Pin<&mut B>) -> Result<Bytes, Unread>
    where
        B: http_body::Body,
        B::Data: Buf,
    {
        let mut whole = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(mut data) = frame.map_err(|_| Unread::Broken)?.into_data() else {
                continue;
            };
            let length = whole.len() + rest.len() + data.remaining();
            if length > self.most {
                return Err(Unread::TooLarge);
            }
            self.make_room(length).await.map_err(Unread::NoRoom)?;
            // Nearly every body is one piece, and then it is not copied.
            if whole.is_empty() && rest.is_empty() {
                whole = data.copy_to_bytes(data.remaining());
                continue;
            }
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut whole));
            }
            rest.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        Ok(if rest.is_empty() {
            whole
        } else {
            rest.freeze()
        })
    }

    /// Reserves memory for so much of the body, and ahead of it: twice as much each time, but never more than it can
    /// become. Somebody who announces much and sends little holds little.
    async fn make_room(&mut self, length: usize) -> Result<(), NoRoom> {
        if length <= SMALL {
            return Ok(());
        }
        let wait = self.shared.limits.admission_wait;
        let wanted = length.next_power_of_two().max(FIRST).min(self.most);
        let room = self.room.get_or_insert_with(|| {
            let account = self.shared.endpoint.budget().account(&self.caller.owner());
            account.take(0)
        });
        if room.bytes() >= length {
            return Ok(());
        }
        room.grow_within(wanted - room.bytes(), wait).await
    }
}

fn too_large(most: usize) -> Refusal {
    let error = RpcError::invalid_request(format!("a body has at most {most} bytes"))
        .with_data(json!({ "limit": "body_bytes", "value": most }));
    (StatusCode::PAYLOAD_TOO_LARGE, error)
}
