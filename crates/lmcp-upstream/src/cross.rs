//! Translates requests from the revision of a caller to that of the server, and results back.

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

/// The answers in a request that is sent again.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) responses: Vec<(String, Box<RawValue>)>,
    pub(crate) state: Option<String>,
}

/// Returns the whole line of a request, in the revision of this server. Everything that neither revision has a rule about is
/// copied as it is.
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

/// Returns the parameters of a request that is made because of another request, with the `_meta` of that one.
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

/// Writes `_meta` in the revision of this server. `false`: it is empty.
fn write_meta(
    out: &mut Vec<u8>,
    request: &Request,
    peer: &Peer,
    profile: &Profile,
    id: i64,
    told: &str,
) -> bool {
    let start = out.len();
    // If neither side has a session, the caller's details are passed on as they are.
    let is_same = request.session().is_none() && request.version() == peer.version;
    let mut names_client = false;
    for member in scan::members(told) {
        match &*member.name() {
            // The name of another party that a caller acts for is not passed on: to the server, it could be the name of
            // another caller.
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

/// Writes a comma and a member.
fn put_value(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    out.push(b',');
    jsonrpc::append(out, name);
    out.push(b':');
    jsonrpc::append(out, value);
}

/// Turns the members after this place, each with a comma in front, into an object. `false`: there are none.
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

/// The usual number of bytes in a line besides the caller's parameters.
const MORE: usize = 400;

/// Returns what a server of 2026-07-28 may ask a caller for. Callers with sessions do not know tasks.
fn declared(request: &Request) -> ClientCapabilities {
    let mut declared = request.capabilities();
    if request.session().is_some()
        && let Some(extensions) = &mut declared.extensions
    {
        extensions.remove(task::EXTENSION);
    }
    declared
}

/// Returns the answer of a server to its opening, in a form for callers of every revision.
pub(crate) fn opening(peer: &Peer) -> Box<RawValue> {
    let Ok(mut result) = Members::read(peer.result.get()) else {
        return peer.result.clone();
    };
    // Tasks of 2025-11-25 differ from those that a newer client knows.
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

/// Returns whether the client of a request declared that it can be asked this question.
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

/// Returns whether the server asks something before it answers.
pub(crate) fn asks(result: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind<'a> {
        #[serde(borrow, default)]
        result_type: Cow<'a, str>,
    }
    const ASKS: &str = "input_required";
    // Most results do not contain the word, and need not be parsed for it.
    result.get().contains(ASKS)
        && serde_json::from_str::<Kind<'_>>(result.get()).is_ok_and(|kind| kind.result_type == ASKS)
}
