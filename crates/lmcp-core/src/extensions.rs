//! Values that travel with a request and are found by their type. Layers, and middleware around a transport, add them.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
};

type Value = Arc<dyn Any + Send + Sync>;

/// Holds one value per type. An empty set costs nothing, and clones share the values.
#[derive(Clone, Default)]
pub(crate) struct Extensions(Option<Arc<HashMap<TypeId, Value>>>);

impl Extensions {
    /// Adds a value, and replaces the earlier value of its type.
    pub(crate) fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        let values = Arc::make_mut(self.0.get_or_insert_default());
        values.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        let value = self.0.as_ref()?.get(&TypeId::of::<T>())?;
        (**value).downcast_ref()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.0.as_ref().map_or(0, |values| values.len());
        f.debug_tuple("Extensions").field(&held).finish()
    }
}
