//! What middleware around a mounted service put among the extensions of a request, on its way to handlers.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use http::Extensions;

/// A type of values that handlers find among them.
#[derive(Clone, Copy)]
pub(crate) struct Carry {
    of: TypeId,
    find: fn(&Extensions) -> Option<&(dyn Any + Send + Sync)>,
}

impl Carry {
    pub(crate) fn of<T: Send + Sync + 'static>() -> Self {
        Self {
            of: TypeId::of::<T>(),
            find: |extensions| Some(extensions.get::<T>()?),
        }
    }
}

/// The extensions of one request, and the types that are found in them.
pub(crate) struct Carried {
    pub(crate) extensions: Extensions,
    pub(crate) carries: Arc<[Carry]>,
}

impl Carried {
    /// They cannot be looked through, and are asked for one type at a time; all together they are a value, too.
    pub(crate) fn find(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        if of == TypeId::of::<Extensions>() {
            return Some(&self.extensions);
        }
        let carry = self.carries.iter().find(|carry| carry.of == of)?;
        (carry.find)(&self.extensions)
    }
}
