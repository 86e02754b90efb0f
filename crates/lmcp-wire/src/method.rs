//! The names of requests and notifications.

/// Requests that a client sends to a server.
pub mod request {
    /// Asks the server for its description.
    pub const DISCOVER: &str = "server/discover";
    /// Lists the tools on offer.
    pub const TOOLS_LIST: &str = "tools/list";
    /// Runs a tool.
    pub const TOOLS_CALL: &str = "tools/call";
    /// Lists the prompts on offer.
    pub const PROMPTS_LIST: &str = "prompts/list";
    /// Renders a prompt.
    pub const PROMPTS_GET: &str = "prompts/get";
    /// Lists the resources on offer.
    pub const RESOURCES_LIST: &str = "resources/list";
    /// Lists the URI templates on offer.
    pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
    /// Reads a resource.
    pub const RESOURCES_READ: &str = "resources/read";
    /// Suggests values for an argument.
    pub const COMPLETE: &str = "completion/complete";
    /// Opens a stream of change notifications.
    pub const LISTEN: &str = "subscriptions/listen";
    /// Asks for the state of a task.
    pub const TASKS_GET: &str = "tasks/get";
    /// Answers the questions of a task.
    pub const TASKS_UPDATE: &str = "tasks/update";
    /// Stops a task.
    pub const TASKS_CANCEL: &str = "tasks/cancel";
    /// The handshake of the older revisions.
    pub const INITIALIZE: &str = "initialize";
    /// Asks whether the peer answers. Older revisions only, in both directions.
    pub const PING: &str = "ping";
    /// Sets the lowest level of log messages that the client wants. Older revisions.
    pub const SET_LEVEL: &str = "logging/setLevel";
    /// Starts to watch a resource. Older revisions.
    pub const SUBSCRIBE: &str = "resources/subscribe";
    /// Stops watching a resource. Older revisions.
    pub const UNSUBSCRIBE: &str = "resources/unsubscribe";

    /// Every name above, so that a known name need not be copied.
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

    /// Whether a request changes nothing. If a server that got such a request goes away, the request may be sent to another one.
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
    /// Tells a server to stop working on a request, or a client that a subscription is over.
    pub const CANCELLED: &str = "notifications/cancelled";
    /// Reports the progress of a request.
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
    /// The last line of a host on a socket, which is not part of MCP. See [`Goodbye`](crate::greeting::Goodbye).
    pub const GOODBYE: &str = "notifications/lmcp/goodbye";
}

/// The methods of questions to a client.
pub mod input {
    /// Asks the user.
    pub const ELICIT: &str = "elicitation/create";
    /// Asks the model.
    pub const SAMPLE: &str = "sampling/createMessage";
    /// Asks for the folders that the client works in.
    pub const ROOTS: &str = "roots/list";
}
