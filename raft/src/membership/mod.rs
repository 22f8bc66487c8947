//! Members of the cluster: bootstrap, operations of an operator, and the leader's maintenance of
//! learners, voters and the feature level. A leader that is not fit hands over.

pub(crate) mod bootstrap;
pub(crate) mod feature_level;
pub(crate) mod maintenance;
pub(crate) mod operations;
pub(crate) mod unfit;
