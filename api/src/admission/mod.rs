//! Whether a request may be handled now: what API keys, tenants and source networks share, in the order in
//! which a request meets it. `auth.rs` takes the first three before the body is read.
//!
//! 1. [`failed_authentications`]: a network that sends wrong keys waits.
//! 2. [`budget`]: requests in progress of a node, a tenant and a key; later the bytes of bodies and of
//!    responses, streams and exports. `node` counts connections of networks by it too.
//! 3. [`rates`]: the requests per minute of a tenant.
//! 4. [`memory`]: a node without memory rejects new work.
//! 5. [`fair`]: reads, texts to embed and large writes wait in turn.
//!
//! [`request`] is what a request carries through all of them: its id, its source, and its shares.
//! [`budget`] also says which addresses are one client. [`crate::limits`] has the numbers.

pub(crate) mod budget;
pub(crate) mod failed_authentications;
pub(crate) mod fair;
pub(crate) mod memory;
pub(crate) mod rates;
pub(crate) mod request;
