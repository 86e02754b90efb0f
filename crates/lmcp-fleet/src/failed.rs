//! Why a host gave no answer to a call.

/// Why a host gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failed {
    pub(crate) words: String,
    /// May the call have begun there? `None`: the host refused it in its own words.
    pub(crate) began: Option<bool>,
    pub(crate) is_retriable: bool,
}
