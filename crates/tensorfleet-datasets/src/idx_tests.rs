//! Damaged and hostile files.

use super::*;
