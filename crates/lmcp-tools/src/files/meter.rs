//! The memory that a walk through folders uses: rules of ignore files, names, long lines, threads.
//!
//! The meter reserves it in the caller's share of the server's budget when it is needed, and releases it as soon as
//! it is not. A call never waits for memory: if there is no room for something, it is left out, and the answer says
//! so.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use lmcp_core::{Cx, Reservation, ToolError, ToolResult};

/// The memory that one call has reserved.
pub(crate) struct Meter {
    held: Mutex<Held>,
    /// Whether rules of ignore files were left out.
    left_out_rules: AtomicBool,
}

struct Held {
    reserved: Reservation,
    /// The number of bytes that may be in use without being reserved.
    free: usize,
    used: usize,
}

/// Memory that is in use, until this is dropped.
pub(crate) struct Charge {
    meter: Arc<Meter>,
    bytes: usize,
}

/// The number of bytes that are reserved at once.
const STEP: usize = 256 * 1024;
/// The memory that additional threads leave to the caller's other searches: enough for each that may run at the same
/// time.
const SPARE: usize = 16 * 1024 * 1024;

impl Meter {
    /// Reserves memory in the caller's share, once more than `free` bytes are in use.
    ///
    /// # Errors
    /// The caller has no share.
    pub(crate) fn of(cx: &Cx, free: usize) -> ToolResult<Arc<Self>> {
        let reserved = cx.try_reserve(0);
        let reserved = reserved.map_err(|err| ToolError::rpc(err.into()))?;
        Ok(Self::new(reserved, free))
    }

    /// Grows this reservation once more than `free` bytes are in use.
    pub(crate) fn new(reserved: Reservation, free: usize) -> Arc<Self> {
        Arc::new(Self {
            held: Mutex::new(Held {
                reserved,
                free,
                used: 0,
            }),
            left_out_rules: AtomicBool::new(false),
        })
    }

    /// Takes so many bytes, if there is room.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let mut charge = Charge {
            meter: Arc::clone(self),
            bytes: 0,
        };
        charge.set(bytes).then_some(charge)
    }

    /// Does the same for memory that is useful but not necessary, if there is plenty of room.
    pub(crate) fn take_of_plenty(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        {
            let reserved = &mut self.lock().reserved;
            reserved.grow(SPARE).ok()?;
            let before = reserved.bytes() - SPARE;
            reserved.shrink_to(before);
        }
        self.take(bytes)
    }

    /// Notes that rules of an ignore file are left out.
    pub(crate) fn leave_out_rules(&self) {
        self.left_out_rules.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left_out_rules(&self) -> bool {
        self.left_out_rules.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Charge {
    /// Changes the charge to so many bytes. Returns whether there is room.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let mut held = self.meter.lock();
        let used = held.used - self.bytes + bytes;
        let have = held.free + held.reserved.bytes();
        if used > have {
            let missing = used - have;
            let wanted = missing.max(STEP);
            if held.reserved.grow(wanted).is_err() && held.reserved.grow(missing).is_err() {
                return false;
            }
        }
        held.used = used;
        let keep = (used + STEP).saturating_sub(held.free);
        if held.reserved.bytes() > keep + STEP {
            held.reserved.shrink_to(keep);
        }
        drop(held);
        self.bytes = bytes;
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use lmcp_core::Budget;

    use super::*;

    const MIB: usize = 1024 * 1024;
    const FREE: usize = MIB / 2;

    #[test]
    fn memory_is_set_aside_as_it_is_needed_and_given_back() {
        let budget = Budget::new(30 * MIB);
        let meter = Meter::new(budget.account("a").take(0), FREE);
        let small = meter.take(FREE / 2).unwrap();
        assert_eq!(budget.used(), 0);
        let large = meter.take(10 * MIB).unwrap();
        assert!((10 * MIB..12 * MIB).contains(&(budget.used() + FREE)));
        assert!(meter.take(15 * MIB).is_none(), "a caller has two thirds");
        assert!(meter.take_of_plenty(MIB).is_none(), "that is not plenty");
        drop(large);
        assert!(budget.used() <= 2 * STEP);
        assert!(meter.take_of_plenty(MIB).is_some());
        drop(small);
        drop(meter);
        assert_eq!(budget.used(), 0);
    }
}
