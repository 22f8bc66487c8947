//! The rows of `state/`: their keys, and typed reading of their values.
//! What the rows mean is the model's; who writes them is `apply`, alone.

pub mod key;
pub mod state;
pub mod view;
