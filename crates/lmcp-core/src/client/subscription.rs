//! Subscriptions to changes of lists and resources.

use lmcp_wire::{
    RpcError,
    method::{notification, request},
    subscribe::SubscriptionFilter,
};
use serde_json::{Value, json};

use super::{Calling, Client, Error, Event};

/// A subscription, which hands out changes as they come. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    calling: Calling,
    granted: SubscriptionFilter,
}

/// A change on the server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and their templates.
    Resources,
    /// The contents of the resource with this address.
    Resource(String),
    /// The state of a task, as it is now.
    Task(Value),
}

impl Client {
    /// Subscribes to changes of all lists, and to changes of these resources.
    ///
    /// ```
    /// use lmcp::client::Change;
    ///
    /// # async fn run(client: lmcp::Client) -> Result<(), lmcp::client::Error> {
    /// let mut changes = client.subscribe(["note://garden"]).await?;
    /// while let Some(change) = changes.next().await {
    ///     match change {
    ///         Change::Resource(uri) => println!("{uri} has new contents"),
    ///         Change::Tools => println!("there are other tools"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A server need not tell of changes of its lists; [`Subscription::granted`] says of which it does.
    ///
    /// # Errors
    /// The server refuses subscriptions, or one to any of these resources, or cannot be reached.
    pub async fn subscribe<U: Into<String>>(
        &self,
        resources: impl IntoIterator<Item = U>,
    ) -> Result<Subscription, Error> {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        filter.prompts_list_changed = Some(true);
        filter.resources_list_changed = Some(true);
        let resources: Vec<_> = resources.into_iter().map(Into::into).collect();
        filter.resource_subscriptions = Some(resources).filter(|all| !all.is_empty());
        let subscription = self.listen(&filter).await?;
        let wished = filter.resource_subscriptions.iter().flatten();
        let granted = &subscription.granted.resource_subscriptions;
        let granted = |uri: &&String| granted.iter().flatten().any(|one| one == *uri);
        match wished.into_iter().find(|uri| !granted(uri)) {
            Some(refused) => {
                let words = format!("the server does not tell of changes of {refused}");
                Err(RpcError::invalid_params(words).into())
            }
            None => Ok(subscription),
        }
    }

    /// Subscribes to the changes that the filter names. The server may grant fewer; see [`Subscription::granted`].
    ///
    /// # Errors
    /// The server refuses subscriptions, or cannot be reached.
    pub async fn listen(&self, filter: &SubscriptionFilter) -> Result<Subscription, Error> {
        let mut calling = self.start(request::LISTEN, json!({ "notifications": filter }));
        loop {
            match calling.next().await {
                Some(Event::Progress(_) | Event::Log(_)) => {}
                Some(Event::Other(_, mut params)) => {
                    let granted = params["notifications"].take();
                    let granted = serde_json::from_value(granted).unwrap_or_default();
                    return Ok(Subscription { calling, granted });
                }
                Some(Event::Done(Err(error))) => return Err(error),
                Some(Event::Done(Ok(_))) | None => {
                    let words = "the server ended the subscription at once";
                    return Err(RpcError::internal(words).into());
                }
            }
        }
    }
}

impl Subscription {
    /// The changes that the server has promised to tell when the subscription began.
    pub fn granted(&self) -> &SubscriptionFilter {
        &self.granted
    }

    /// Waits for the next change. A connection that breaks is made again, and the server is told the subscription again. Everything that
    /// is watched is then reported as changed, because nobody heard what changed meanwhile.
    ///
    /// `None`: the subscription is over. The server has ended it, or refuses it since the connection was made again, or could not be
    /// reached for 10 s. What changes from then on is not told: read again what you need, and subscribe again.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            let (method, mut params) = match self.calling.next().await? {
                Event::Other(method, params) => (method, params),
                Event::Done(_) => return None,
                Event::Progress(_) | Event::Log(_) => continue,
            };
            return Some(match &*method {
                notification::TOOLS_CHANGED => Change::Tools,
                notification::PROMPTS_CHANGED => Change::Prompts,
                notification::RESOURCES_CHANGED => Change::Resources,
                notification::RESOURCE_UPDATED => match params["uri"].take() {
                    Value::String(uri) => Change::Resource(uri),
                    _ => continue,
                },
                notification::TASKS => Change::Task(params),
                _ => continue,
            });
        }
    }
}
