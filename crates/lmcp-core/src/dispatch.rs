//! From a request's method to the function that answers it.

use std::{collections::BTreeMap, sync::Arc};

use lmcp_wire::{
    self as wire, ProtocolVersion, RpcError,
    completion::{CompleteParams, CompleteResult, Reference},
    discover::{CacheHint, DiscoverResult, PaginatedParams},
    legacy::{InitializeResult, SetLevelParams},
    method::request,
    resource::ReadResourceResult,
    task,
};
use serde_json::json;

use crate::{
    ask::Asking,
    call::{Call, Running, Work},
    completion::Completing,
    cx::Cx,
    era::{self, SERVED, modern},
    error::ToolError,
    outcome::Outcome,
    request::{Request, decode},
    server::{Engine, catalog::Wanted},
    service::Replies,
    subscribe,
    tool::TaskUse,
    weight,
};

type Answer = Result<Replies, RpcError>;

impl Engine {
    /// Answers a request.
    pub(crate) fn dispatch(self: &Arc<Self>, request: Request) -> Replies {
        if request.message.len() > weight::LIGHT {
            return self.dispatch_heavy(request);
        }
        let id = request.id.clone();
        self.route(request)
            .unwrap_or_else(|error| Replies::error(&id, &error))
    }

    /// Reserves the memory that a large message takes once it is read, then answers it.
    fn dispatch_heavy(self: &Arc<Self>, mut request: Request) -> Replies {
        let engine = Arc::clone(self);
        Replies::later(async move {
            let id = request.id.clone();
            let account = engine.budget.account(&request.caller.owner());
            let weight = weight::weigh(&request.message);
            match account.reserve(weight, engine.limits.admission_wait).await {
                Ok(reserved) => request.weight = Some(Arc::new(reserved)),
                Err(no_room) => return Replies::error(&id, &no_room.into()),
            }
            let answer = engine.route(request);
            answer.unwrap_or_else(|error| Replies::error(&id, &error))
        })
    }

    fn route(self: &Arc<Self>, request: Request) -> Answer {
        let offers = self.catalog().offers;
        if let Some(session) = request.session() {
            match &*request.method {
                request::INITIALIZE => return Ok(self.initialize(&request, session.version())),
                request::PING => return Ok(self.complete(&request, Outcome::Acknowledged)),
                request::SET_LEVEL => {
                    let params: SetLevelParams = request.params()?;
                    session.live()?.set_level(params.level);
                    return Ok(self.complete(&request, Outcome::Acknowledged));
                }
                request::SUBSCRIBE if offers.resources => return subscribe::watch(self, request),
                request::UNSUBSCRIBE if offers.resources => {
                    subscribe::unwatch(session, &request)?;
                    return Ok(self.complete(&request, Outcome::Acknowledged));
                }
                _ => {}
            }
        }
        match &*request.method {
            request::DISCOVER => self.discover(&request),
            request::TOOLS_LIST if offers.tools => self.list(&request),
            request::TOOLS_CALL if offers.tools => self.call_tool(request),
            request::PROMPTS_LIST if offers.prompts => self.list(&request),
            request::PROMPTS_GET if offers.prompts => self.get_prompt(request),
            request::RESOURCES_LIST | request::RESOURCE_TEMPLATES_LIST if offers.resources => {
                self.list(&request)
            }
            request::RESOURCES_READ if offers.resources => self.read_resource(request),
            request::COMPLETE if self.catalog().has_completions() => self.suggest(request),
            request::LISTEN => subscribe::listen(self, request),
            request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => {
                self.task(&request)
            }
            method => Err(RpcError::method_not_found(method)),
        }
    }

    fn discover(&self, request: &Request) -> Answer {
        request.check_flaw()?;
        let versions = SERVED.iter().map(ToString::to_string).collect();
        let mut result = DiscoverResult::new(versions, self.catalog().capabilities());
        result.instructions = self
            .instructions
            .as_ref()
            .map(|tell| tell(request.caller()));
        Ok(self.complete(request, Outcome::Discover(result, self.list_cache)))
    }

    /// The answer to a handshake; what it settled on is in the session.
    fn initialize(&self, request: &Request, version: ProtocolVersion) -> Replies {
        let mut result = InitializeResult::new(
            version.to_string(),
            self.catalog().capabilities(),
            serde_json::from_str(&self.server_info).unwrap_or_default(),
        );
        result.instructions = self
            .instructions
            .as_ref()
            .map(|tell| tell(request.caller()));
        self.complete(request, Outcome::Initialized(Box::new(result)))
    }

    fn list(&self, request: &Request) -> Answer {
        request.check_flaw()?;
        let params: PaginatedParams = request.params()?;
        let catalog = self.catalog();
        let wanted = Wanted {
            cursor: params.cursor.as_deref(),
            most: self.limits.list_page,
            version: request.version,
            structured: request.method() != request::TOOLS_LIST
                || self.presentation(request).structured,
            sight: self.sight(request),
        };
        // What depends on the caller is for it alone.
        let mut cache = self.list_cache;
        let is_common = wanted.structured && wanted.sight.is_common(&catalog);
        if request.method() == request::TOOLS_LIST && !is_common {
            cache = CacheHint::private(cache.ttl_ms);
        }
        let page = match &*request.method {
            request::TOOLS_LIST => catalog.list_tools(wanted),
            request::PROMPTS_LIST => catalog.list_prompts(wanted),
            request::RESOURCES_LIST => catalog.list_resources(wanted),
            _ => catalog.list_templates(wanted),
        };
        Ok(self.complete(request, Outcome::List(page?, cache)))
    }

    fn call_tool(self: &Arc<Self>, request: Request) -> Answer {
        let name = request.target()?;
        modern::check_name(&request, &name)?;
        let catalog = self.catalog();
        let sight = self.sight(&request);
        let Some(tool) = catalog.find_tool(&name, sight) else {
            return Err(absent("tool", &name, catalog.near_tool(&name, sight)));
        };
        let arguments = request.members.arguments.as_deref();
        if arguments.is_some_and(|text| !text.starts_with(b"{")) {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let arguments = tool.read_arguments(arguments);
        if let Ok(arguments) = &arguments {
            modern::check_params(&request, &tool.mirrored, arguments)?;
        }
        // Without tasks in its revision a client can only wait.
        if tool.task == TaskUse::Required && request.session.is_none() {
            expect_tasks(&request)?;
            self.tasks.expect_room(&request.caller, &self.limits)?;
        }
        request.check_flaw()?;
        let asking = self.resume(&request)?;
        let deadline = tool.deadline.unwrap_or(self.limits.deadline);
        let harmless = tool.is_read_only();
        let call = Call::new(request, Arc::clone(self), asking);
        let cx = Cx(Arc::clone(&call));
        let work: Work = Box::pin(async move {
            let arguments = tool.check_arguments(arguments?)?;
            if tool.task != TaskUse::Never {
                cx.detach().await;
            }
            tool.run(arguments, cx).await.map(Outcome::Tool)
        });
        Ok(Replies::from_source(Running::new(
            call, work, deadline, harmless,
        )))
    }

    fn read_resource(self: &Arc<Self>, request: Request) -> Answer {
        let uri = request.target()?.into_owned();
        modern::check_name(&request, &uri)?;
        request.check_flaw()?;
        let absent = era::no_resource(&request, &uri);
        let Some((resource, variables)) = self.catalog().find_resource(&uri) else {
            return Err(absent);
        };
        let asking = self.resume(&request)?;
        Ok(self.run(request, asking, move |cx| {
            Box::pin(async move {
                let contents = resource.read(&uri, variables, cx).await;
                let contents = contents.map_err(|err| err.at(|| absent))?;
                Ok(Outcome::Read(
                    ReadResourceResult::new(contents),
                    resource.cache,
                ))
            })
        }))
    }

    /// Reads a resource for the caller of a request and throws the contents away: a result says that it may be read.
    pub(crate) fn try_read(self: &Arc<Self>, uri: &str, request: &Request) -> Replies {
        let Some((resource, variables)) = self.catalog().find_resource(uri) else {
            return Replies::error(&request.id, &era::no_resource(request, uri));
        };
        let uri = uri.to_owned();
        self.run(request.clone(), Asking::default(), move |cx| {
            Box::pin(async move {
                let read = resource.read(&uri, variables, cx).await;
                read.map(|_| Outcome::Acknowledged)
            })
        })
    }

    fn get_prompt(self: &Arc<Self>, request: Request) -> Answer {
        let name = request.target()?;
        modern::check_name(&request, &name)?;
        request.check_flaw()?;
        let catalog = self.catalog();
        let Some(prompt) = catalog.prompts.get(&name) else {
            return Err(unknown("prompt", &name, catalog.prompts.keys()));
        };
        let arguments = request.members.arguments.as_deref().unwrap_or(b"{}");
        let arguments: BTreeMap<String, String> = decode(arguments).map_err(|err| {
            RpcError::invalid_params(format!("the arguments of a prompt are strings: {err}"))
        })?;
        let asking = self.resume(&request)?;
        Ok(self.run(request, asking, move |cx| {
            Box::pin(async move {
                let mut result = prompt.render(arguments, cx).await?;
                result.description = result
                    .description
                    .or_else(|| prompt.spec.description.clone());
                Ok(Outcome::Prompt(result))
            })
        }))
    }

    fn suggest(self: &Arc<Self>, request: Request) -> Answer {
        request.check_flaw()?;
        let params: CompleteParams<'_> = request.params()?;
        let (catalog, name) = (self.catalog(), params.argument.name.clone().into_owned());
        let filled = params.context.clone().and_then(|context| context.arguments);
        let completing = Completing {
            value: params.argument.value.clone().into_owned(),
            filled: filled.unwrap_or_default(),
        };
        let work: Box<dyn FnOnce(Cx) -> Work> = match &params.reference {
            Reference::Prompt { name: prompt, .. } => {
                let Some(prompt) = catalog.prompts.get(prompt) else {
                    return Err(unknown("prompt", prompt, catalog.prompts.keys()));
                };
                Box::new(|cx| {
                    Box::pin(async move {
                        suggested(prompt.completions.complete(&name, completing, cx).await)
                    })
                })
            }
            Reference::Resource { uri } => {
                let Some(template) = catalog.find_template(uri) else {
                    return Err(unknown("resource template", uri, catalog.templates.keys()));
                };
                Box::new(|cx| {
                    Box::pin(async move {
                        suggested(template.completions.complete(&name, completing, cx).await)
                    })
                })
            }
            _ => {
                return Err(RpcError::invalid_params(
                    "`ref` must be a prompt or a resource template",
                ));
            }
        };
        drop(params);
        Ok(self.run(request, Asking::default(), work))
    }

    fn task(&self, request: &Request) -> Answer {
        let id = request.target()?;
        modern::check_name(request, &id)?;
        expect_tasks(request)?;
        request.check_flaw()?;
        let owner = request.caller().owner();
        let outcome = match &*request.method {
            request::TASKS_GET => Outcome::Task(self.tasks.get(&id, &owner)?),
            request::TASKS_CANCEL => {
                self.tasks.cancel(&id, &owner, self)?;
                Outcome::Acknowledged
            }
            _ => {
                let responses = request
                    .members
                    .input_responses
                    .as_deref()
                    .unwrap_or(b"null");
                let responses = decode(responses)
                    .map_err(|_| RpcError::invalid_params("`inputResponses` must be an object"))?;
                self.tasks.answer(&id, &owner, responses, self)?;
                Outcome::Acknowledged
            }
        };
        Ok(self.complete(request, outcome))
    }

    fn resume(&self, request: &Request) -> Result<Asking, RpcError> {
        if request.session.is_some() {
            // Here a question waits for its answer; nothing is ever brought along.
            return Ok(Asking::default());
        }
        Asking::resume(&request.members, &self.sealer, || self.subject(request))
    }

    fn run(
        self: &Arc<Self>,
        request: Request,
        asking: Asking,
        work: impl FnOnce(Cx) -> Work,
    ) -> Replies {
        let call = Call::new(request, Arc::clone(self), asking);
        let work = work(Cx(Arc::clone(&call)));
        // Reading, prompts and completion change nothing.
        Replies::from_source(Running::new(call, work, self.limits.deadline, true))
    }

    pub(crate) fn complete(&self, request: &Request, outcome: Outcome) -> Replies {
        let reply = era::encode(request, outcome, None, &self.server_info);
        Replies::ready(reply.counted(&self.budget, &request.caller))
    }
}

fn suggested(values: Result<Vec<String>, ToolError>) -> Result<Outcome, ToolError> {
    Ok(Outcome::Complete(CompleteResult::new(values?)))
}

/// Tasks are spoken of only with clients that said, on this request, that they know them.
pub(crate) fn expect_tasks(request: &Request) -> Result<(), RpcError> {
    if request.capabilities().has_extension(task::EXTENSION) {
        return Ok(());
    }
    let mut needed = wire::ClientCapabilities::default();
    needed.extensions = Some(
        [(task::EXTENSION.to_owned(), json!({}))]
            .into_iter()
            .collect(),
    );
    Err(RpcError::missing_capability(&needed))
}

/// Names what is not there, and what may have been meant.
fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> RpcError {
    absent(kind, name, lmcp_schema::nearest(name, known))
}

fn absent(kind: &str, name: &str, near: Option<&str>) -> RpcError {
    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let error = RpcError::invalid_params(format!("there is no {kind} `{name}`{hint}"));
    error.with_data(json!({ "name": name, "near": near }))
}
