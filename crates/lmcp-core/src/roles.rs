//! The roles that a tool, a resource or a prompt is for.

/// The roles that may see an item. `None`: everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles(Option<Box<[String]>>);

impl Roles {
    pub(crate) fn only<R: Into<String>>(roles: impl IntoIterator<Item = R>) -> Self {
        Self(Some(roles.into_iter().map(Into::into).collect()))
    }

    /// Whether everybody may see the item.
    pub(crate) fn is_everybody(&self) -> bool {
        self.0.is_none()
    }

    /// Whether callers of this role may see the item.
    pub(crate) fn has(&self, role: Option<&str>) -> bool {
        let roles = self.0.as_ref();
        roles.is_none_or(|roles| roles.iter().any(|known| Some(known.as_str()) == role))
    }
}
