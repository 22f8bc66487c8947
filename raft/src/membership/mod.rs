//! Members of the cluster: bootstrap, operations of an operator, and the leader's maintenance of
//! learners and voters.

pub(crate) mod bootstrap;
pub(crate) mod maintenance;
pub(crate) mod operations;
