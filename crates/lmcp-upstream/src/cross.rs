//! From the revision of a caller to that of the server, and back.

use std::borrow::Cow;

use lmcp_client::conversation::{Peer, Profile};
use lmcp_core::Request;
use lmcp_wire::{
    ClientCapabilities, Implementation, RpcError, elicit::ElicitMode, input::InputRequest, jsonrpc,
    members::Members, meta, task,
};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

/// What a request brings the second time.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) responses: Vec<(String, Box<RawValue>)>,
    pub(crate) state: Option<String>,
}

/// The parameters of a request as this server takes them.
pub(crate) fn params(
    request: &Request,
    peer: &Peer,
    profile: &Profile,
    id: i64,
    answers: Option<&Answers>,
) -> Result<Vec<u8>, RpcError> {
    let mut params: Members<'_> = request.params()?;
    let told = params.take("_meta");
    let mut told = told
        .as_ref()
        .and_then(|told| Members::read(told.get()).ok())
        .unwrap_or_default();
    told.take("progressToken");
    // Whom a caller of ours acts for is between it and us: to the server, it could be another caller's name.
    while told.take(meta::FOR).is_some() {}
    if profile.names_callers
        && let Some(name) = request.caller().as_beneficiary()
    {
        told.set(meta::FOR, &name);
    }
    // Where both stand alone, what the caller says of itself is passed on as it is.
    let is_same = request.session().is_none() && request.version() == peer.version;
    if !is_same {
        for own in [
            meta::PROTOCOL_VERSION,
            meta::CLIENT_INFO,
            meta::CLIENT_CAPABILITIES,
            meta::LOG_LEVEL,
        ] {
            told.take(own);
        }
    }
    if request.wants_progress() {
        told.set("progressToken", &id);
    }
    if peer.version.has_handshake() {
        params.take("inputResponses");
        params.take("requestState");
    } else {
        if !is_same {
            told.set(meta::PROTOCOL_VERSION, peer.version.as_str());
            told.set(meta::CLIENT_CAPABILITIES, &declared(request));
            if let Some(level) = request.log_level() {
                told.set(meta::LOG_LEVEL, &level);
            }
        }
        if profile.asks_nobody() {
            told.set(meta::CLIENT_CAPABILITIES, &ClientCapabilities::default());
        }
        if told.get(meta::CLIENT_INFO).is_none() {
            let info: Implementation = request
                .client_info()
                .unwrap_or_else(|| profile.info.clone());
            told.set(meta::CLIENT_INFO, &info);
        }
    }
    if let Some(answers) = answers {
        let mut responses = Members::default();
        for (key, answer) in &answers.responses {
            responses.set(key.as_str(), answer);
        }
        params.set("inputResponses", &responses);
        params.take("requestState");
        if let Some(state) = &answers.state {
            params.set("requestState", state);
        }
    }
    if !told.is_empty() {
        params.set("_meta", &told);
    }
    let mut out = Vec::new();
    jsonrpc::append(&mut out, &params);
    Ok(out)
}

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
