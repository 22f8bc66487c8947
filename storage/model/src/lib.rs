//! Domain types and pure functions: memories, heat and decay, scores, access, triggers.
//! Nothing here reads a disk, a clock or the network.

/// Defines an enum whose values have a name. The names are used in JSON, metrics and docs.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$doc])* $value,)*
        }

        impl $type {
            /// All values, in the order of their stored numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// All values with their names.
            pub const NAMED: [(&'static str, Self); Self::ALL.len()] =
                [$(($name, Self::$value)),*];

            /// The name used in JSON, metrics and docs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }
    };
}

pub mod access;
pub mod analytics;
pub mod api_key;
pub mod audit;
pub mod bounded;
pub mod cluster;
pub mod decay;
pub mod details;
pub mod duplicate;
pub mod edge;
pub mod guard;
pub mod heat;
pub mod id;
pub mod journal;
pub mod knowledge_graph;
pub mod memory;
pub mod receipt;
pub mod release;
pub mod retention;
pub mod score;
pub mod simd;
pub mod sq8;
pub mod temporal;
pub mod tenant;
pub mod thermo;
pub mod tick;
pub mod times;
pub mod tombstone;
pub mod trigger;
pub mod trigger_match;
pub mod vector;
pub mod versions;
