//! From the revision of a caller to that of the server, and back.

use std::borrow::Cow;

use lmcp_client::conversation::{Peer, Profile};
use lmcp_core::Request;
use lmcp_wire::{
    ClientCapabilities, elicit::ElicitMode, input::InputRequest, jsonrpc, members::Members, meta,
    scan, task,
};
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// What a request brings the second time.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) responses: Vec<(String, Box<RawValue>)>,
    pub(crate) state: Option<String>,
}

/// A request as this server takes it: the whole line. Everything that neither side has a rule about is copied as it is written.
pub(crate) fn line(
    request: &Request,
    peer: &Peer,
    profile: &Profile,
    id: i64,
    answers: Option<&Answers>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.message_bytes() + MORE);
    jsonrpc::open_request(&mut out, &id.into(), request.method());
    let start = out.len();
    let brings_answers = |name: &str| matches!(name, "inputResponses" | "requestState");
    let mut told = "{}";
    for member in request.written_params() {
        match &*member.name() {
            "_meta" => told = member.value,
            name if brings_answers(name) && (answers.is_some() || peer.version.has_handshake()) => {
            }
            _ => member.write(&mut out),
        }
    }
    if let Some(answers) = answers {
        let mut responses = Members::default();
        for (key, answer) in &answers.responses {
            responses.set(key.as_str(), answer);
        }
        put_value(&mut out, "inputResponses", &responses);
        if let Some(state) = &answers.state {
            put_value(&mut out, "requestState", state);
        }
    }
    let before = out.len();
    out.extend_from_slice(b",\"_meta\":");
    let is_empty = !write_meta(&mut out, request, peer, profile, id, told);
    if is_empty {
        out.truncate(before);
    }
    close(&mut out, start);
    out.push(b'}');
    out
}

/// The parameters of a request that is made because of another one, with what that says of itself.
pub(crate) fn beside(
    request: &Request,
    peer: &Peer,
    profile: &Profile,
    id: i64,
    cursor: Option<&Value>,
) -> Vec<u8> {
    let mut told = request.written_params();
    let told = told.find(|member| member.name() == "_meta");
    let told = told.map_or("{}", |member| member.value);
    let mut out = b"{\"_meta\":".to_vec();
    write_meta(&mut out, request, peer, profile, id, told);
    if let Some(cursor) = cursor {
        put_value(&mut out, "cursor", cursor);
    }
    out.push(b'}');
    out
}

/// Writes `_meta` as this server takes it. `false`: it is empty.
fn write_meta(
    out: &mut Vec<u8>,
    request: &Request,
    peer: &Peer,
    profile: &Profile,
    id: i64,
    told: &str,
) -> bool {
    let start = out.len();
    // Where both stand alone, what the caller says of itself is passed on as it is.
    let is_same = request.session().is_none() && request.version() == peer.version;
    let mut names_client = false;
    for member in scan::members(told) {
        match &*member.name() {
            // Whom a caller of ours acts for is between it and us: to the server, it could be another caller's name.
            "progressToken" | meta::FOR => {}
            meta::PROTOCOL_VERSION
            | meta::CLIENT_INFO
            | meta::CLIENT_CAPABILITIES
            | meta::LOG_LEVEL
                if !is_same => {}
            meta::CLIENT_CAPABILITIES if profile.asks_nobody() => {}
            name => {
                names_client |= name == meta::CLIENT_INFO;
                member.write(out);
            }
        }
    }
    if profile.names_callers
        && let Some(name) = request.caller().as_beneficiary()
    {
        put_value(out, meta::FOR, &name);
    }
    if request.wants_progress() {
        put_value(out, "progressToken", &id);
    }
    if !peer.version.has_handshake() {
        if profile.asks_nobody() {
            put_value(
                out,
                meta::CLIENT_CAPABILITIES,
                &ClientCapabilities::default(),
            );
        } else if !is_same {
            put_value(out, meta::CLIENT_CAPABILITIES, &declared(request));
        }
        if !is_same {
            put_value(out, meta::PROTOCOL_VERSION, peer.version.as_str());
            if let Some(level) = request.log_level() {
                put_value(out, meta::LOG_LEVEL, &level);
            }
        }
        if !names_client {
            match request.client_info_text() {
                Some(info) => {
                    out.extend_from_slice(NAMES_CLIENT);
                    out.extend_from_slice(info.as_bytes());
                }
                None => put_value(out, meta::CLIENT_INFO, &profile.info),
            }
        }
    }
    close(out, start)
}

/// Writes a member behind a comma.
fn put_value(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    out.push(b',');
    jsonrpc::append(out, name);
    out.push(b':');
    jsonrpc::append(out, value);
}

/// Makes an object of the members that stand behind this place, each behind a comma. `false`: there are none.
fn close(out: &mut Vec<u8>, start: usize) -> bool {
    let Some(first) = out.get_mut(start) else {
        out.extend_from_slice(b"{}");
        return false;
    };
    *first = b'{';
    out.push(b'}');
    true
}

const NAMES_CLIENT: &[u8] = b",\"io.modelcontextprotocol/clientInfo\":";

/// What a line has beside the parameters that a caller wrote, in bytes, most often.
const MORE: usize = 400;

/// What a server of 2026-07-28 may ask a caller for. Callers of sessions know no tasks.
fn declared(request: &Request) -> ClientCapabilities {
    let mut declared = request.capabilities();
    if request.session().is_some()
        && let Some(extensions) = &mut declared.extensions
    {
        extensions.remove(task::EXTENSION);
    }
    declared
}

/// The answer of a server to its opening, as any caller gets it.
pub(crate) fn opening(peer: &Peer) -> Box<RawValue> {
    let Ok(mut result) = Members::read(peer.result.get()) else {
        return peer.result.clone();
    };
    // Tasks of 2025-11-25 are not those that a newer client knows.
    let offered = result.get("capabilities").map(ToOwned::to_owned);
    if peer.version.has_handshake()
        && let Some(mut offered) = offered
            .as_ref()
            .and_then(|offered| Members::read(offered.get()).ok())
    {
        offered.take("tasks");
        result.set("capabilities", &offered);
    }
    to_raw_value(&result).unwrap_or_else(|_| peer.result.clone())
}

/// Did the client of a request say that it can be asked this?
pub(crate) fn can_be_asked(request: &Request, question: &InputRequest) -> bool {
    let declared = request.capabilities();
    match question {
        InputRequest::Elicit(params) => match params.mode {
            Some(ElicitMode::Url) => declared.has_url(),
            _ => declared.has_form(),
        },
        InputRequest::Sample(params) => match declared.sampling {
            Some(sampling) => params.tools.is_none() || sampling.tools.is_some(),
            None => false,
        },
        InputRequest::Roots(_) => declared.roots.is_some(),
        _ => false,
    }
}

/// Does the server ask for something before it answers?
pub(crate) fn asks(result: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind<'a> {
        #[serde(borrow, default)]
        result_type: Cow<'a, str>,
    }
    const ASKS: &str = "input_required";
    // Most results do not hold the word anywhere, and need not be read for it.
    result.get().contains(ASKS)
        && serde_json::from_str::<Kind<'_>>(result.get()).is_ok_and(|kind| kind.result_type == ASKS)
}
