//! Tokens: one word to any number of tasks.

use std::ffi::c_int;

use windlass_pool::CancelToken;

use crate::life::{Kind, Opaque};
use crate::object::Table;
use crate::status::{Failure, Status, guard, invalid};

static TOKENS: Table<CancelToken> = Table::new(Kind::Token);

/// The token behind a handle, or none behind NULL. It outlives its handle.
pub(crate) fn of(token: Opaque) -> Result<Option<CancelToken>, Failure> {
    if token.is_null() {
        return Ok(None);
    }
    Ok(Some(CancelToken::clone(&*TOKENS.get(token)?)))
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_token_create(token: *mut Opaque) -> Status {
    guard("windlass_token_create", || {
        if token.is_null() {
            return Err(invalid("there is no place for the token: NULL"));
        }
        // SAFETY: the caller's pointer, checked.
        unsafe { *token = TOKENS.add(CancelToken::new()) };
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_token_cancel(token: Opaque) -> Status {
    guard("windlass_token_cancel", || {
        TOKENS.get(token)?.cancel();
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_token_is_cancelled(token: Opaque) -> c_int {
    let mut is_cancelled = false;
    let status = guard("windlass_token_is_cancelled", || {
        is_cancelled = TOKENS.get(token)?.is_cancelled();
        Ok(())
    });
    if status == Status::Ok { c_int::from(is_cancelled) } else { -1 }
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_token_destroy(token: Opaque) -> Status {
    guard("windlass_token_destroy", || TOKENS.remove(TOKENS.get(token)?))
}
