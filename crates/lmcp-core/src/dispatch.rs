//! From a request's method to the function that answers it.

use std::{collections::BTreeMap, sync::Arc};

use lmcp_wire::{
    RpcError,
    completion::{CompleteParams, CompleteResult, Reference},
    discover::{CacheHint, PaginatedParams},
    legacy::SetLevelParams,
    method::request,
    name::Beginning,
    resource::ReadResourceResult,
};
use serde_json::{Value, json};

use crate::{
    asking::Asking,
    call::{Call, RunningCall, Work},
    completion::Completing,
    cx::Cx,
    error::{ToolError, no_resource},
    layer,
    limits::is_long,
    mirror,
    outcome::{Discovery, Outcome, Payload},
    request::{Request, decode},
    server::{Engine, Handle, list::Wanted},
    service::{Replies, Service},
    subscribe,
    tool::{CheckedTool, TaskUse},
    weight,
};

type Routed = Result<Replies, RpcError>;

impl Engine {
    /// Answers a request.
    fn dispatch(self: &Arc<Self>, request: Request) -> Replies {
        if request.message.len() > weight::LIGHT {
            return self.dispatch_heavy(request);
        }
        self.route(request).unwrap_or_else(Replies::error)
    }

    /// Reserves the memory that a large message takes once it is read, then answers it.
    fn dispatch_heavy(self: &Arc<Self>, mut request: Request) -> Replies {
        let engine = Arc::clone(self);
        let long = request
            .premises
            .clone()
            .filter(|_| is_long(&request.message));
        Replies::later(async move {
            let account = engine.account(&request);
            let weight = match &long {
                Some(premises) => {
                    let message = request.message.clone();
                    premises.read_long(move || weight::weigh(&message)).await
                }
                None => Ok(weight::weigh(&request.message)),
            };
            let wait = engine.limits.admission_wait;
            let reserved = match weight {
                Ok(weight) => account.reserve(weight, wait).await.map_err(RpcError::from),
                Err(error) => Err(error),
            };
            match reserved {
                Ok(reserved) => request.weight = Some(Arc::new(reserved)),
                Err(error) => return Replies::error(error),
            }
            let route = move || engine.route(request).unwrap_or_else(Replies::error);
            match long {
                Some(premises) => premises
                    .read_long(route)
                    .await
                    .unwrap_or_else(Replies::error),
                None => route(),
            }
        })
    }

    fn route(self: &Arc<Self>, request: Request) -> Routed {
        if let Some(session) = request.session() {
            match &*request.method {
                request::INITIALIZE => return Ok(self.discover(&request)),
                request::PING => return Ok(self.complete(Payload::Acknowledged)),
                request::SET_LEVEL => {
                    let params: SetLevelParams = request.params()?;
                    session.live()?.set_level(params.level);
                    return Ok(self.complete(Payload::Acknowledged));
                }
                _ => {}
            }
        }
        if !self.offers(&request) {
            return Err(RpcError::method_not_found(request.method()));
        }
        match &*request.method {
            // A call is checked against its tool, and against headers and tasks, before its `_meta`.
            request::TOOLS_CALL => return self.call_tool(request),
            _ => check_offered(&request)?,
        }
        match &*request.method {
            request::DISCOVER => Ok(self.discover(&request)),
            request::PROMPTS_GET => self.get_prompt(request),
            request::RESOURCES_READ => self.read_resource(request),
            request::COMPLETE => self.suggest(request),
            request::LISTEN => subscribe::listen(self, request),
            request::SUBSCRIBE => subscribe::watch(self, request),
            request::UNSUBSCRIBE => {
                subscribe::unwatch(&request)?;
                Ok(self.complete(Payload::Acknowledged))
            }
            request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => {
                self.task(&request)
            }
            _ => self.list(&request),
        }
    }

    /// Whether the server has this method. The method of a kind that the server never offered does not exist.
    fn offers(&self, request: &Request) -> bool {
        let catalog = self.catalog();
        match &*request.method {
            request::DISCOVER
            | request::LISTEN
            | request::TASKS_GET
            | request::TASKS_UPDATE
            | request::TASKS_CANCEL => true,
            request::TOOLS_LIST | request::TOOLS_CALL => catalog.offers.tools,
            request::PROMPTS_LIST | request::PROMPTS_GET => catalog.offers.prompts,
            request::RESOURCES_LIST
            | request::RESOURCE_TEMPLATES_LIST
            | request::RESOURCES_READ
            | request::SUBSCRIBE
            | request::UNSUBSCRIBE => catalog.offers.resources,
            request::COMPLETE => catalog.has_completions(),
            _ => false,
        }
    }

    /// Answers with the description of the server. A handshake asks for the same; the revision that it agreed on is in the
    /// session.
    fn discover(&self, request: &Request) -> Replies {
        let mut discovery = Discovery::new(self.catalog().capabilities());
        discovery.instructions = self
            .instructions
            .as_ref()
            .map(|tell| tell(request.caller()));
        self.complete(Payload::Discover(Box::new(discovery), self.list_cache))
    }

    fn list(&self, request: &Request) -> Routed {
        let params: PaginatedParams = request.params()?;
        let catalog = self.catalog();
        let wanted = Wanted {
            cursor: params.cursor.as_deref(),
            most: self.limits.list_page,
            version: request.version,
            structured: request.method() != request::TOOLS_LIST
                || self.presentation(request).structured,
            visibility: self.visibility(request),
            forms: self.forms,
        };
        // A list that depends on the caller may be cached for this caller only.
        let mut cache = self.list_cache;
        let is_common = catalog.is_common(request.method(), wanted.visibility);
        if !(wanted.structured && is_common) {
            cache = CacheHint::private(cache.ttl_ms);
        }
        let page = match &*request.method {
            request::TOOLS_LIST => catalog.list_tools(wanted),
            request::PROMPTS_LIST => catalog.list_prompts(wanted),
            request::RESOURCES_LIST => catalog.list_resources(wanted),
            _ => catalog.list_templates(wanted),
        };
        Ok(self.complete(Payload::List(page?, cache)))
    }

    fn call_tool(self: &Arc<Self>, request: Request) -> Routed {
        let name = request.target()?;
        let catalog = self.catalog();
        let visibility = self.visibility(&request);
        let Some(tool) = catalog.find_tool(&name, visibility) else {
            return Err(absent("tool", &name, catalog.near_tool(&name, visibility)));
        };
        let arguments = request.arguments();
        if arguments.is_some_and(|text| !text.starts_with(b"{")) {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let mut arguments = tool.read_arguments(arguments);
        self.check_call(&request, &tool, arguments.as_ref().ok())?;
        // What takes long is done here, where nobody else waits for it.
        let checked = is_long(&request.message);
        if checked {
            arguments = arguments.and_then(|arguments| tool.check_arguments(arguments));
        }
        let asking = self.resume(&request)?;
        let deadline = tool.deadline.unwrap_or(self.limits.deadline);
        let harmless = tool.is_read_only();
        let call = Call::new(request, Arc::clone(self), asking);
        let cx = Cx(Arc::clone(&call));
        let work: Work = Box::pin(async move {
            let arguments = match arguments? {
                arguments if checked => arguments,
                arguments => tool.check_arguments(arguments)?,
            };
            if tool.task != TaskUse::Never {
                cx.detach().await;
            }
            tool.run(arguments, cx).await.map(Payload::CallTool)
        });
        Ok(Replies::from_source(RunningCall::new(
            call, work, deadline, harmless,
        )))
    }

    /// As [`check_offered`] for a call, in the specification's order: headers that repeat arguments, what the client must know, `_meta`;
    /// then whether there is room for a task that it must become.
    fn check_call(
        &self,
        request: &Request,
        tool: &CheckedTool,
        arguments: Option<&Value>,
    ) -> Result<(), RpcError> {
        let alone = request.session().is_none();
        let headers = request.caller().headers().filter(|_| alone);
        if let (Some(headers), Some(arguments)) = (headers, arguments) {
            mirror::check_params(headers, &tool.mirrored, arguments)?;
        }
        let needs_task = tool.task == TaskUse::Required && request.has_tasks();
        if needs_task {
            request.expect_tasks()?;
        }
        request.check_flaw()?;
        if needs_task {
            self.tasks.expect_room(&request.caller, &self.limits)?;
        }
        Ok(())
    }

    fn read_resource(self: &Arc<Self>, request: Request) -> Routed {
        let uri = request.target()?.into_owned();
        let visibility = self.visibility(&request);
        let Some((resource, variables)) = self.catalog().find_visible(&uri, visibility) else {
            return Err(no_resource(&uri));
        };
        let asking = self.resume(&request)?;
        Ok(self.run(request, asking, move |cx| {
            Box::pin(async move {
                let contents = resource.read(&uri, variables, cx).await;
                let contents = contents.map_err(|err| err.at(|| no_resource(&uri)))?;
                Ok(Payload::ReadResource(
                    ReadResourceResult::new(contents),
                    resource.cache,
                ))
            })
        }))
    }

    /// Reads a resource for the caller of a request, and throws the contents away. A result means that the caller may read the
    /// resource.
    pub(crate) fn try_read(self: &Arc<Self>, uri: &str, request: &Request) -> Replies {
        let visibility = self.visibility(request);
        let Some((resource, variables)) = self.catalog().find_visible(uri, visibility) else {
            return Replies::error(no_resource(uri));
        };
        let uri = uri.to_owned();
        self.run(request.clone(), Asking::default(), move |cx| {
            Box::pin(async move {
                let read = resource.read(&uri, variables, cx).await;
                read.map(|_| Payload::Acknowledged)
            })
        })
    }

    fn get_prompt(self: &Arc<Self>, request: Request) -> Routed {
        let name = request.target()?;
        let catalog = self.catalog();
        let visibility = self.visibility(&request);
        let Some(prompt) = catalog.find_prompt(&name, visibility) else {
            return Err(unknown("prompt", &name, catalog.prompt_names(visibility)));
        };
        let arguments = request.arguments().unwrap_or(b"{}");
        let arguments: BTreeMap<String, String> = decode(arguments).map_err(|err| {
            let err = Beginning(err);
            RpcError::invalid_params(format!("the arguments of a prompt are strings: {err}"))
        })?;
        let asking = self.resume(&request)?;
        Ok(self.run(request, asking, move |cx| {
            Box::pin(async move {
                let mut result = prompt.render(arguments, cx).await?;
                result.description = result
                    .description
                    .or_else(|| prompt.spec.description.clone());
                Ok(Payload::GetPrompt(result))
            })
        }))
    }

    fn suggest(self: &Arc<Self>, request: Request) -> Routed {
        let params: CompleteParams<'_> = request.params()?;
        let (catalog, name) = (self.catalog(), params.argument.name.clone().into_owned());
        let filled = params.context.clone().and_then(|context| context.arguments);
        let completing = Completing {
            value: params.argument.value.clone().into_owned(),
            filled: filled.unwrap_or_default(),
        };
        let visibility = self.visibility(&request);
        let work: Box<dyn FnOnce(Cx) -> Work> = match &params.reference {
            Reference::Prompt { name: prompt, .. } => {
                let Some(prompt) = catalog.find_prompt(prompt, visibility) else {
                    return Err(unknown("prompt", prompt, catalog.prompt_names(visibility)));
                };
                Box::new(|cx| {
                    Box::pin(async move {
                        suggested(prompt.completions.complete(&name, completing, cx).await)
                    })
                })
            }
            Reference::Resource { uri } => {
                let template = catalog.find_template(uri);
                let template = template.filter(|template| visibility.includes(&template.roles));
                let Some(template) = template else {
                    let known = catalog.template_uris(visibility);
                    return Err(unknown("resource template", uri, known));
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

    fn task(&self, request: &Request) -> Routed {
        let id = request.target()?;
        let owner = request.caller().owner();
        let payload = match &*request.method {
            request::TASKS_GET => Payload::Task(Box::new(self.tasks.get(&id, &owner)?)),
            request::TASKS_CANCEL => {
                self.tasks.cancel(&id, &owner, self)?;
                Payload::Acknowledged
            }
            _ => {
                let responses = request.input_responses().unwrap_or(b"null");
                let responses = decode(responses)
                    .map_err(|_| RpcError::invalid_params("`inputResponses` must be an object"))?;
                self.tasks.answer(&id, &owner, responses, self)?;
                Payload::Acknowledged
            }
        };
        Ok(self.complete(payload))
    }

    fn resume(&self, request: &Request) -> Result<Asking, RpcError> {
        if request.session.is_some() {
            // In a session the handler waits for the answer to a question, so a request never carries answers.
            return Ok(Asking::default());
        }
        Asking::resume(request, &self.sealer)
    }

    fn run(
        self: &Arc<Self>,
        request: Request,
        asking: Asking,
        work: impl FnOnce(Cx) -> Work,
    ) -> Replies {
        let call = Call::new(request, Arc::clone(self), asking);
        let work = work(Cx(Arc::clone(&call)));
        // Resources, prompts and completions change nothing.
        Replies::from_source(RunningCall::new(call, work, self.limits.deadline, true))
    }

    pub(crate) fn complete(&self, payload: Payload) -> Replies {
        Replies::done(Outcome::new(payload).from_server(Arc::clone(&self.server_info)))
    }
}

impl Service for Handle {
    fn call(&self, request: Request) -> Replies {
        if self.engine.layers.is_empty() {
            return self.engine.dispatch(request);
        }
        let behind = Dispatcher(Arc::clone(&self.engine));
        layer::call(&self.engine.layers, &behind, request)
    }

    fn close(&self) {
        self.engine.close();
    }

    fn is_idle(&self) -> bool {
        Self::is_idle(self)
    }
}

/// An engine without its layers: the service behind the last layer.
struct Dispatcher(Arc<Engine>);

impl Service for Dispatcher {
    fn call(&self, request: Request) -> Replies {
        self.0.dispatch(request)
    }
}

fn suggested(values: Result<Vec<String>, ToolError>) -> Result<Payload, ToolError> {
    Ok(Payload::Complete(CompleteResult::new(values?)))
}

/// Checks a request after it is clear that the method is offered. The earlier checks are made when a request is admitted.
fn check_offered(request: &Request) -> Result<(), RpcError> {
    if request.method().starts_with("tasks/") {
        request.expect_tasks()?;
    }
    request.check_flaw()
}

/// Names what is not there, and what may have been meant.
fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> RpcError {
    absent(kind, name, lmcp_schema::nearest(name, known))
}

fn absent(kind: &str, name: &str, near: Option<&str>) -> RpcError {
    let name = Beginning(name).to_string();
    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let error = RpcError::invalid_params(format!("there is no {kind} `{name}`{hint}"));
    error.with_data(json!({ "name": name, "near": near }))
}
