//! The extensions that middleware adds to a request of a mounted service, on their way to handlers.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use http::Extensions;

/// A type of values that handlers can find among the extensions.
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

/// The extensions of one request, and the types that handlers can find in them.
pub(crate) struct Carried {
    pub(crate) extensions: Extensions,
    pub(crate) carries: Arc<[Carry]>,
}

impl Carried {
    /// Finds a value by its type. The extensions cannot be listed, so only the types in `carries` can be found. The extensions
    /// as a whole are a value, too.
    pub(crate) fn find(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        if of == TypeId::of::<Extensions>() {
            return Some(&self.extensions);
        }
        let carry = self.carries.iter().find(|carry| carry.of == of)?;
        (carry.find)(&self.extensions)
    }
}
