//! Webhooks: checks of receivers, signatures, sealed secrets, and the leader's delivery of what
//! is pending. `storage` decides what is pending.

pub(crate) mod address;
mod attempt;
mod hosts;
mod message;
mod permits;
mod sealing;
mod sender;

pub(crate) use attempt::Webhooks;
pub(crate) use sealing::new_cluster_key;
pub(crate) use sender::{Counters, Sender};
