//! A notification of a server, as it waits for callers. All callers share one text. Of a change, the text says only what changed:
//! a server must not multiply a long text by the number of those who watch.

use std::sync::Arc;

use lmcp_wire::{limits::LONGEST_NAME, method::notification};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::limits::NEWS_META;

/// A notification. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub(crate) method: Arc<str>,
    pub(crate) params: Arc<RawValue>,
    /// The resource, task or list that the notification is about. Only the last one about it counts. `None`: each counts.
    pub(crate) about: Option<Arc<str>>,
}

/// The members of a notification that say what changed.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(skip_serializing)]
    task_id: Option<String>,
    #[serde(borrow, rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
}

impl News {
    /// A notification of which every one counts.
    pub(crate) fn new(method: &str, params: Box<RawValue>) -> Self {
        Self {
            method: method.into(),
            params: params.into(),
            about: None,
        }
    }

    /// The notice that a resource has changed.
    pub(crate) fn updated(uri: &str) -> Self {
        let changed = Changed {
            uri: Some(uri.to_owned()),
            ..Changed::default()
        };
        changed.told(notification::RESOURCE_UPDATED, uri)
    }

    /// The notice that a list has changed.
    pub(crate) fn list(method: &str) -> Self {
        Changed::default().told(method, "")
    }

    /// Reads the notice of a server that a list, a resource or a task has changed. `None`: the notice does not say what changed, or
    /// no client could name it.
    pub(crate) fn read(method: &str, params: &RawValue) -> Option<Self> {
        let mut changed: Changed<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        changed.meta = changed.meta.filter(|meta| meta.get().len() <= NEWS_META);
        let named = |name: Option<String>| name.filter(|name| name.len() <= LONGEST_NAME);
        match method {
            notification::RESOURCE_UPDATED => {
                let uri = named(changed.uri.clone())?;
                Some(changed.told(method, &uri))
            }
            // The state of the task is part of the notice.
            notification::TASKS => Some(Self {
                about: Some(named(changed.task_id)?.into()),
                ..Self::new(method, params.to_owned())
            }),
            _ => {
                changed.uri = None;
                Some(changed.told(method, ""))
            }
        }
    }

    /// Returns whether this makes another notification superfluous.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        self.about.is_some() && self.about == other.about && self.method == other.method
    }

    /// The bytes that the notification takes where it waits.
    pub(crate) fn bytes(&self) -> usize {
        self.method.len() + self.params.get().len()
    }
}

impl Changed<'_> {
    fn told(&self, method: &str, about: &str) -> News {
        let params = to_raw_value(self).unwrap_or_else(|_| RawValue::NULL.to_owned());
        News {
            about: Some(about.into()),
            ..News::new(method, params)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(method: &str, params: &Value) -> Option<Value> {
        let news = News::read(method, &to_raw_value(params).unwrap())?;
        Some(serde_json::from_str(news.params.get()).unwrap())
    }

    #[test]
    fn of_a_changed_resource_only_its_name_and_a_short_meta_are_told() {
        let long = "x".repeat(NEWS_META);
        let method = notification::RESOURCE_UPDATED;
        let said = json!({ "uri": "a:1", "_meta": { "m": 1 }, "x": long, "taskId": "t" });
        let told = json!({ "uri": "a:1", "_meta": { "m": 1 } });
        assert_eq!(read(method, &said), Some(told));
        let said = json!({ "uri": "a:1", "_meta": { "m": long } });
        assert_eq!(read(method, &said), Some(json!({ "uri": "a:1" })));
        let said = json!({ "uri": format!("a:{}", "x".repeat(LONGEST_NAME)) });
        assert_eq!(read(method, &said), None);
    }

    #[test]
    fn of_a_changed_list_nothing_but_a_short_meta_is_told() {
        let said = json!({ "uri": "a:1", "_meta": { "m": 1 }, "x": 1 });
        let told = read(notification::TOOLS_CHANGED, &said);
        assert_eq!(told, Some(json!({ "_meta": { "m": 1 } })));
    }

    #[test]
    fn of_a_task_its_whole_state_is_told() {
        let said = json!({ "taskId": "t", "status": "completed", "result": { "x": 1 } });
        assert_eq!(read(notification::TASKS, &said), Some(said.clone()));
    }
}
