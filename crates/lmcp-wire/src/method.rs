//! The names of requests and notifications.

/// Requests a client sends to a server.
pub mod request {
    /// Asks the server for its description.
    pub const DISCOVER: &str = "server/discover";
    /// The tools on offer.
    pub const TOOLS_LIST: &str = "tools/list";
    /// Run a tool.
    pub const TOOLS_CALL: &str = "tools/call";
    /// The prompts on offer.
    pub const PROMPTS_LIST: &str = "prompts/list";
    /// Render a prompt.
    pub const PROMPTS_GET: &str = "prompts/get";
    /// The resources on offer.
    pub const RESOURCES_LIST: &str = "resources/list";
    /// The URI templates on offer.
    pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
    /// Read a resource.
    pub const RESOURCES_READ: &str = "resources/read";
    /// Suggest values for an argument.
    pub const COMPLETE: &str = "completion/complete";
    /// Open a stream of change notifications.
    pub const LISTEN: &str = "subscriptions/listen";
    /// State of a task.
    pub const TASKS_GET: &str = "tasks/get";
    /// Answers for a task.
    pub const TASKS_UPDATE: &str = "tasks/update";
    /// Stop a task.
    pub const TASKS_CANCEL: &str = "tasks/cancel";
    /// The handshake of the older revisions.
    pub const INITIALIZE: &str = "initialize";
    /// Asks whether the peer is there. Older revisions only, in both directions.
    pub const PING: &str = "ping";
    /// From which level on log messages are wanted. Older revisions.
    pub const SET_LEVEL: &str = "logging/setLevel";
    /// Watch a resource. Older revisions.
    pub const SUBSCRIBE: &str = "resources/subscribe";
    /// Watch it no longer. Older revisions.
    pub const UNSUBSCRIBE: &str = "resources/unsubscribe";

    /// Every name above, so that a known one need not be copied.
    pub const ALL: [&str; 18] = [
        TOOLS_CALL,
        TOOLS_LIST,
        DISCOVER,
        RESOURCES_READ,
        RESOURCES_LIST,
        RESOURCE_TEMPLATES_LIST,
        PROMPTS_GET,
        PROMPTS_LIST,
        COMPLETE,
        LISTEN,
        TASKS_GET,
        TASKS_UPDATE,
        TASKS_CANCEL,
        INITIALIZE,
        PING,
        SET_LEVEL,
        SUBSCRIBE,
        UNSUBSCRIBE,
    ];

    /// Does a request change nothing? Then it may be sent to the next server although the last one had it, and went away.
    pub fn only_reads(method: &str) -> bool {
        matches!(
            method,
            DISCOVER
                | TOOLS_LIST
                | PROMPTS_LIST
                | PROMPTS_GET
                | RESOURCES_LIST
                | RESOURCE_TEMPLATES_LIST
                | RESOURCES_READ
                | COMPLETE
                | PING
                | TASKS_GET
        )
    }
}

/// Notifications, either way.
pub mod notification {
    /// Stop working on a request (to the server), or a subscription is over (to the client).
    pub const CANCELLED: &str = "notifications/cancelled";
    /// How far a request has got.
    pub const PROGRESS: &str = "notifications/progress";
    /// A log message.
    pub const MESSAGE: &str = "notifications/message";
    /// The tools changed.
    pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
    /// The prompts changed.
    pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
    /// The resources changed.
    pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
    /// A resource has new contents.
    pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
    /// A subscription is open.
    pub const LISTEN_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
    /// A task has a new state.
    pub const TASKS: &str = "notifications/tasks";
    /// The handshake is done. Older revisions.
    pub const INITIALIZED: &str = "notifications/initialized";
    /// The client works in other folders now. Older revisions.
    pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
    /// Not of MCP: the last line of a host on a socket. See [`Goodbye`](crate::greeting::Goodbye).
    pub const GOODBYE: &str = "notifications/lmcp/goodbye";
}

/// The methods of questions to a client.
pub mod input {
    /// Ask the user.
    pub const ELICIT: &str = "elicitation/create";
    /// Ask the model.
    pub const SAMPLE: &str = "sampling/createMessage";
    /// Ask which folders the client works in.
    pub const ROOTS: &str = "roots/list";
}
