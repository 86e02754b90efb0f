//! The items that one server offers, kept as JSON. No I/O.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::items::sifted;

/// The items that one server offers, in its own words. An item that two readers may read differently is left out, so clients
/// get exactly what is compared with earlier definitions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, from = "Said")]
pub(crate) struct Listing {
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Box<RawValue>>,
    pub(crate) prompts: Vec<Box<RawValue>>,
    pub(crate) resources: Vec<Box<RawValue>>,
    pub(crate) templates: Vec<Box<RawValue>>,
    /// The items that are left out, in words.
    pub(crate) left_out: Vec<String>,
}

impl Listing {
    /// Returns how long the lists are together.
    pub(crate) fn bytes(&self) -> usize {
        let lists = [&self.tools, &self.prompts, &self.resources, &self.templates];
        lists
            .into_iter()
            .flatten()
            .map(|item| item.get().len())
            .sum()
    }
}

/// A listing as it is written in a file, maybe by an earlier release.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    instructions: Option<String>,
    tools: Vec<Box<RawValue>>,
    prompts: Vec<Box<RawValue>>,
    resources: Vec<Box<RawValue>>,
    templates: Vec<Box<RawValue>>,
    left_out: Vec<String>,
}

impl From<Said> for Listing {
    fn from(said: Said) -> Self {
        let mut left_out = said.left_out;
        let mut taken = |items| sifted(items, &mut left_out);
        Self {
            instructions: said.instructions,
            tools: taken(said.tools),
            prompts: taken(said.prompts),
            resources: taken(said.resources),
            templates: taken(said.templates),
            left_out,
        }
    }
}
