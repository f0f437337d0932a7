# shellcheck shell=sh
# What Open MPI is told on one machine: more ranks than cores, as any user, with messages through memory that ranks can see
# in a container, too (PRTE: from version 5 on). MPICH is told to yield where it polls. To be sourced.
# SPDX-License-Identifier: MIT
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_warn_on_fork=0
PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
OMPI_MCA_mpi_yield_when_idle=1 MPIR_CVAR_POLLS_BEFORE_YIELD=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
export OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_btl_vader_single_copy_mechanism OMPI_MCA_mpi_warn_on_fork
export PRTE_MCA_rmaps_default_mapping_policy PRTE_MCA_hwloc_default_binding_policy
export OMPI_MCA_mpi_yield_when_idle MPIR_CVAR_POLLS_BEFORE_YIELD
