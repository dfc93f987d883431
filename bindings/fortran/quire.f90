! Quire from Fortran: module QUIRE, over the C interface (quire/quire.h, quire/quire_dataset.h,
! quire/quire_stream.h), with its names.
!
! Layer      bindings; Fortran 2008; the communicator is the INTEGER of mpif.h and the module mpi
! Threads    as quire/quire.h
!
! What a call means (visibility, durability, order, errors, cost) is said once, in quire/database.h
! and quire/dataset.h. STATUS is QUIRE_OK or a code; QUIRE_ERROR_MESSAGE() then says why. Keys and
! values are characters: all of them, trailing blanks included. Names and texts are taken without
! trailing blanks.
module quire
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer, parameter, public :: QUIRE_OK = 0
  integer, parameter, public :: QUIRE_NOT_FOUND = 1
  integer, parameter, public :: QUIRE_INVALID_ARGUMENT = 2
  integer, parameter, public :: QUIRE_READ_ONLY = 3
  integer, parameter, public :: QUIRE_NO_SPACE = 4
  integer, parameter, public :: QUIRE_IO = 5
  integer, parameter, public :: QUIRE_CORRUPTION = 6
  integer, parameter, public :: QUIRE_BUSY = 7
  integer, parameter, public :: QUIRE_TIMED_OUT = 8
  integer, parameter, public :: QUIRE_PEER_FAILED = 9
  integer, parameter, public :: QUIRE_OUT_OF_MEMORY = 10
  integer, parameter, public :: QUIRE_UNSUPPORTED = 11
  ! Elements of an object of a stream
  integer, parameter, public :: QUIRE_ELEMENT_BYTES = 0
  integer, parameter, public :: QUIRE_ELEMENT_INT8 = 1
  integer, parameter, public :: QUIRE_ELEMENT_INT16 = 2
  integer, parameter, public :: QUIRE_ELEMENT_INT32 = 3
  integer, parameter, public :: QUIRE_ELEMENT_INT64 = 4
  integer, parameter, public :: QUIRE_ELEMENT_FLOAT32 = 9
  integer, parameter, public :: QUIRE_ELEMENT_FLOAT64 = 10
  integer, parameter, public :: QUIRE_ELEMENT_COMPLEX64 = 11
  integer, parameter, public :: QUIRE_ELEMENT_COMPLEX128 = 12
  ! quire_db_set_consistency
  integer, parameter, public :: QUIRE_SEQUENTIAL = 1
  integer, parameter, public :: QUIRE_RELAXED = 2
  ! quire_db_protect
  integer, parameter, public :: QUIRE_READ_WRITE = 8
  integer, parameter, public :: QUIRE_WRITE_ONLY = 16
  integer, parameter, public :: QUIRE_PROTECT_READ_ONLY = 32
  integer, parameter, public :: QUIRE_UPDATE_ONLY = 64
  ! quire_db_barrier
  integer, parameter, public :: QUIRE_MEMTABLE = 1
  integer, parameter, public :: QUIRE_SSTABLE = 2

  ! Handles. Copies of one stand for the same thing.
  type, public :: quire_options
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_options
  type, public :: quire_context
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_context
  type, public :: quire_db
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_db
  type, public :: quire_batch
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_batch
  type, public :: quire_event
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_event
  type, public :: quire_iter
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_iter
  type, public :: quire_reader
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_reader
  type, public :: quire_dataset_writer
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_dataset_writer
  type, public :: quire_dataset_reader
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_dataset_reader
  type, public :: quire_dataset_values
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_dataset_values
  type, public :: quire_dataset_scan
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_dataset_scan

  type, public :: quire_stream_writer
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_stream_writer
  type, public :: quire_stream_reader
    type(c_ptr), private :: handle = c_null_ptr
  end type quire_stream_reader
  ! quire_stream_shape of C.
  type, bind(c) :: stream_shape
    integer(c_int) :: element = 0
    integer(c_int32_t) :: extent_count = 0
    integer(c_int64_t) :: extents(8) = 0
  end type stream_shape

  ! A complete epoch of a dataset. UNIX_TIME: when it was completed, in seconds.
  type, bind(c), public :: quire_dataset_epoch
    integer(c_int64_t) :: number = 0
    integer(c_int64_t) :: pair_count = 0
    integer(c_int64_t) :: unix_time = 0
    integer(c_int32_t) :: rank_count = 0
  end type quire_dataset_epoch

  ! Bytes that an update function is given: QUIRE_BYTES_AT copies them.
  type, bind(c), public :: quire_bytes
    type(c_ptr) :: data = c_null_ptr
    integer(c_size_t) :: size = 0
  end type quire_bytes
  ! Changes a value at its owner. PRESENT is null where the key is absent, else where QUIRE_BYTES
  ! are. Gives the new value with QUIRE_VALUE_SET to UPDATED and answers QUIRE_OK, or QUIRE_NOT_FOUND
  ! to write nothing; any other code is a failure. What it sets ANSWER to goes to who asked. It must
  ! not call the database. Threads of the owner may run it at the same time: where it calls functions
  ! whose result is an allocatable text, gfortran keeps its length in one place for all of them.
  ! QUIRE_BYTES_AT is none of these.
  abstract interface
    integer(c_int) function quire_update_function(key, present, argument, updated, answer, user) &
        bind(c)
      import :: c_int, c_ptr, quire_bytes
      type(quire_bytes), value :: key, argument
      type(c_ptr), value :: present, updated, answer, user
    end function quire_update_function
  end interface
  public :: quire_update_function
  ! The owner rank of the KEY_SIZE bytes at KEY, from 0 to RANK_COUNT - 1: pure, the same on all
  ! ranks. It must not call the library.
  abstract interface
    integer(c_int) function quire_partitioner(key, key_size, rank_count, user) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: key, user
      integer(c_size_t), value :: key_size
      integer(c_int), value :: rank_count
    end function quire_partitioner
  end interface
  public :: quire_partitioner

  public :: quire_version, quire_code_name, quire_error_message
  public :: quire_options_create, quire_options_destroy, quire_options_set
  public :: quire_options_set_partitioner, quire_options_set_dataset_partitioner
  public :: quire_options_set_dataset_first_match
  public :: quire_context_open, quire_context_open_mpi, quire_context_close
  public :: quire_context_rank, quire_context_size, quire_context_describe
  public :: quire_context_barrier, quire_context_notify, quire_context_wait_signal
  public :: quire_context_progress, quire_context_destroy_database
  public :: quire_context_list_databases, quire_context_agree
  public :: quire_context_restart, quire_context_destroy_database_async, quire_db_checkpoint
  public :: quire_event_ready, quire_event_wait, quire_event_progress, quire_event_destroy
  public :: quire_db_open, quire_db_close, quire_db_owner
  public :: quire_db_put, quire_db_delete, quire_db_get, quire_db_write
  public :: quire_db_fence, quire_db_barrier, quire_db_set_consistency, quire_db_protect
  public :: quire_db_compact, quire_db_flush, quire_db_statistic
  public :: quire_db_register_update, quire_db_update, quire_db_update_and_answer
  public :: quire_value_set, quire_bytes_at
  public :: quire_reader_open, quire_reader_destroy, quire_reader_get, quire_reader_refresh
  public :: quire_reader_iter_create
  public :: quire_batch_create, quire_batch_put, quire_batch_delete, quire_batch_clear
  public :: quire_batch_destroy
  public :: quire_iter_create, quire_iter_destroy, quire_iter_seek_to_first
  public :: quire_iter_seek_to_last, quire_iter_seek, quire_iter_next, quire_iter_prev
  public :: quire_iter_valid, quire_iter_status, quire_iter_key, quire_iter_value
  public :: quire_dataset_writer_open, quire_dataset_writer_destroy
  public :: quire_dataset_writer_begin_epoch, quire_dataset_writer_put
  public :: quire_dataset_writer_end_epoch, quire_dataset_writer_last_epoch
  public :: quire_dataset_writer_finish, quire_dataset_writer_statistic
  public :: quire_dataset_reader_open, quire_dataset_reader_destroy, quire_dataset_reader_refresh
  public :: quire_dataset_reader_epochs, quire_dataset_reader_get, quire_dataset_reader_trajectory
  public :: quire_dataset_reader_verify, quire_dataset_reader_statistic
  public :: quire_dataset_values_count, quire_dataset_values_at, quire_dataset_values_destroy
  public :: quire_dataset_scan_create, quire_dataset_scan_destroy, quire_dataset_scan_valid
  public :: quire_dataset_scan_status, quire_dataset_scan_next, quire_dataset_scan_pair
  public :: quire_stream_writer_open, quire_stream_writer_destroy, quire_stream_writer_create
  public :: quire_stream_writer_attach, quire_stream_writer_free, quire_stream_writer_put
  public :: quire_stream_writer_snapshot, quire_stream_writer_restore
  public :: quire_stream_writer_last_snapshot, quire_stream_writer_sync, quire_stream_writer_finish
  public :: quire_stream_reader_open, quire_stream_reader_destroy, quire_stream_reader_get
  public :: quire_stream_reader_get_at, quire_stream_reader_wait

  include 'quire_c.inc'
  include 'quire_stream_c.inc'

contains

  ! ---- The library ----

  recursive function quire_version() result(text)
    character(len=:), allocatable :: text
    text = text_at(c_version())
  end function quire_version

  recursive function quire_code_name(code) result(text)
    integer, intent(in) :: code
    character(len=:), allocatable :: text
    text = text_at(c_code_name(int(code, c_int)))
  end function quire_code_name

  ! Why this thread's last failed call failed; empty where none has.
  recursive function quire_error_message() result(text)
    character(len=:), allocatable :: text
    text = text_at(c_error_message())
  end function quire_error_message

  ! ---- Options, by name and value ----

  ! Opening sets each option that has its default from its environment variable, QUIRE_ and the name
  ! in capitals; another value that the program set wins.
  recursive subroutine quire_options_create(options, status)
    type(quire_options), intent(out) :: options
    integer, intent(out) :: status
    status = c_options_create(options%handle)
  end subroutine quire_options_create

  recursive subroutine quire_options_destroy(options)
    type(quire_options), intent(inout) :: options
    call c_options_destroy(options%handle)
    options%handle = c_null_ptr
  end subroutine quire_options_destroy

  recursive subroutine quire_options_set(options, name, val, status)
    type(quire_options), intent(in) :: options
    character(len=*), intent(in) :: name, val
    integer, intent(out) :: status
    status = c_options_set(options%handle, trim(name) // c_null_char, trim(val) // c_null_char)
  end subroutine quire_options_set

  ! Databases opened with these options use the function, under the stored name NAME. USER is handed
  ! to it.
  recursive subroutine quire_options_set_partitioner(options, name, function, status, user)
    type(quire_options), intent(in) :: options
    character(len=*), intent(in) :: name
    procedure(quire_partitioner) :: function
    integer, intent(out) :: status
    type(c_ptr), intent(in), optional :: user
    type(c_ptr) :: handed
    handed = c_null_ptr
    if (present(user)) handed = user
    status = c_options_set_partitioner(options%handle, trim(name) // c_null_char, &
                                       c_funloc(function), handed)
  end subroutine quire_options_set_partitioner

  ! ---- Contexts ----

  ! One rank alone. QUIRE_NOT_FOUND: the repository and its parent directory are absent.
  recursive subroutine quire_context_open(repository, context, status, options)
    character(len=*), intent(in) :: repository
    type(quire_context), intent(out) :: context
    integer, intent(out) :: status
    type(quire_options), intent(in), optional :: options
    status = c_context_open(trim(repository) // c_null_char, handle_of(options), context%handle)
  end subroutine quire_context_open

  ! The ranks of a communicator. Collective.
  recursive subroutine quire_context_open_mpi(communicator, repository, context, status, options)
    integer, intent(in) :: communicator
    character(len=*), intent(in) :: repository
    type(quire_context), intent(out) :: context
    integer, intent(out) :: status
    type(quire_options), intent(in), optional :: options
    status = c_context_open_fortran(int(communicator, c_int), trim(repository) // c_null_char, &
      handle_of(options), context%handle)
  end subroutine quire_context_open_mpi

  ! Closes also what is open in it. Before MPI_FINALIZE.
  ! Where it is refused, CONTEXT stays open, and can be closed later.
  recursive subroutine quire_context_close(context, status)
    type(quire_context), intent(inout) :: context
    integer, intent(out) :: status
    status = c_context_close(context%handle)
    if (status == QUIRE_OK) context%handle = c_null_ptr
  end subroutine quire_context_close

  recursive integer function quire_context_rank(context)
    type(quire_context), intent(in) :: context
    quire_context_rank = c_context_rank(context%handle)
  end function quire_context_rank

  recursive integer function quire_context_size(context)
    type(quire_context), intent(in) :: context
    quire_context_size = c_context_size(context%handle)
  end function quire_context_size

  recursive subroutine quire_context_describe(context, text, status)
    type(quire_context), intent(in) :: context
    character(len=:), allocatable, intent(out) :: text
    integer, intent(out) :: status
    type(c_ptr) :: bytes
    bytes = c_null_ptr
    status = c_context_describe(context%handle, bytes)
    text = text_at(bytes)
    call c_free(bytes)
  end subroutine quire_context_describe

  recursive subroutine quire_context_barrier(context, status)
    type(quire_context), intent(in) :: context
    integer, intent(out) :: status
    status = c_context_barrier(context%handle)
  end subroutine quire_context_barrier

  recursive subroutine quire_context_notify(context, signal, ranks, status)
    type(quire_context), intent(in) :: context
    integer, intent(in) :: signal, ranks(:)
    integer, intent(out) :: status
    status = c_context_notify(context%handle, int(signal, c_int), int(ranks, c_int), &
      int(size(ranks), c_int))
  end subroutine quire_context_notify

  recursive subroutine quire_context_wait_signal(context, signal, ranks, status)
    type(quire_context), intent(in) :: context
    integer, intent(in) :: signal, ranks(:)
    integer, intent(out) :: status
    status = c_context_wait_signal(context%handle, int(signal, c_int), int(ranks, c_int), &
      int(size(ranks), c_int))
  end subroutine quire_context_wait_signal

  recursive subroutine quire_context_progress(context, status)
    type(quire_context), intent(in) :: context
    integer, intent(out) :: status
    status = c_context_progress(context%handle)
  end subroutine quire_context_progress

  recursive subroutine quire_context_destroy_database(context, name, status)
    type(quire_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer, intent(out) :: status
    status = c_context_destroy_database(context%handle, trim(name) // c_null_char)
  end subroutine quire_context_destroy_database

  ! The names of the databases in the repository, in order, each followed by new_line('a').
  ! Collective.
  recursive subroutine quire_context_list_databases(context, names, status)
    type(quire_context), intent(in) :: context
    character(len=:), allocatable, intent(out) :: names
    integer, intent(out) :: status
    type(c_ptr) :: bytes
    bytes = c_null_ptr
    status = c_context_list_databases(context%handle, bytes)
    names = text_at(bytes)
    call c_free(bytes)
  end subroutine quire_context_list_databases

  ! One outcome for all ranks: STATUS is the code of the lowest failing rank, and its TEXT the
  ! message. Collective.
  recursive subroutine quire_context_agree(context, code, text, status)
    type(quire_context), intent(in) :: context
    integer, intent(in) :: code
    character(len=*), intent(in) :: text
    integer, intent(out) :: status
    status = c_context_agree(context%handle, int(code, c_int), trim(text) // c_null_char)
  end subroutine quire_context_agree

  ! ---- Persistence ----

  recursive subroutine quire_context_destroy_database_async(context, name, event, status)
    type(quire_context), intent(in) :: context
    character(len=*), intent(in) :: name
    type(quire_event), intent(out) :: event
    integer, intent(out) :: status
    status = c_context_destroy_database_async(context%handle, trim(name) // c_null_char, &
                                              event%handle)
  end subroutine quire_context_destroy_database_async

  ! The newest `keep` stay; 0: all.
  recursive subroutine quire_db_checkpoint(db, path, event, status, keep)
    type(quire_db), intent(in) :: db
    character(len=*), intent(in) :: path
    type(quire_event), intent(out) :: event
    integer, intent(out) :: status
    integer, intent(in), optional :: keep
    integer(c_int) :: kept
    kept = 0
    if (present(keep)) kept = int(keep, c_int)
    status = c_db_checkpoint(db%handle, trim(path) // c_null_char, kept, event%handle)
  end subroutine quire_db_checkpoint

  ! From checkpoint `number`, or the newest; copied, or used where it lies; beside no database of
  ! the name, or replacing it once all is there.
  recursive subroutine quire_context_restart(context, path, name, event, status, number, in_place, replace)
    type(quire_context), intent(in) :: context
    character(len=*), intent(in) :: path, name
    type(quire_event), intent(out) :: event
    integer, intent(out) :: status
    integer(c_int64_t), intent(in), optional :: number
    logical, intent(in), optional :: in_place, replace
    integer(c_int64_t) :: wanted
    integer(c_int) :: flags
    wanted = 0
    flags = 0
    if (present(number)) wanted = number
    if (present(in_place)) flags = flags + merge(1_c_int, 0_c_int, in_place)
    if (present(replace)) flags = flags + merge(2_c_int, 0_c_int, replace)
    status = c_context_restart(context%handle, trim(path) // c_null_char, &
                               trim(name) // c_null_char, wanted, flags, event%handle)
  end subroutine quire_context_restart

  recursive logical function quire_event_ready(event)
    type(quire_event), intent(in) :: event
    quire_event_ready = c_event_ready(event%handle) /= 0
  end function quire_event_ready

  recursive subroutine quire_event_wait(event, status)
    type(quire_event), intent(in) :: event
    integer, intent(out) :: status
    status = c_event_wait(event%handle)
  end subroutine quire_event_wait

  recursive subroutine quire_event_progress(event, bytes_done, bytes_total, status)
    type(quire_event), intent(in) :: event
    integer(c_int64_t), intent(out) :: bytes_done, bytes_total
    integer, intent(out) :: status
    bytes_done = 0
    bytes_total = 0
    status = c_event_progress(event%handle, bytes_done, bytes_total)
  end subroutine quire_event_progress

  recursive subroutine quire_event_destroy(event)
    type(quire_event), intent(inout) :: event
    call c_event_destroy(event%handle)
    event%handle = c_null_ptr
  end subroutine quire_event_destroy

  ! ---- Databases ----

  recursive subroutine quire_db_open(context, name, db, status, options)
    type(quire_context), intent(in) :: context
    character(len=*), intent(in) :: name
    type(quire_db), intent(out) :: db
    integer, intent(out) :: status
    type(quire_options), intent(in), optional :: options
    status = c_db_open(context%handle, trim(name) // c_null_char, handle_of(options), db%handle)
  end subroutine quire_db_open

  recursive subroutine quire_db_close(db, status)
    type(quire_db), intent(in) :: db
    integer, intent(out) :: status
    status = c_db_close(db%handle)
  end subroutine quire_db_close

  recursive subroutine quire_db_owner(db, key, owner, status)
    type(quire_db), intent(in) :: db
    character(len=*, kind=c_char), intent(in) :: key
    integer, intent(out) :: owner, status
    status = c_db_owner(db%handle, key, len(key, c_size_t), owner)
  end subroutine quire_db_owner

  recursive subroutine quire_db_put(db, key, val, status)
    type(quire_db), intent(in) :: db
    character(len=*, kind=c_char), intent(in) :: key, val
    integer, intent(out) :: status
    status = c_db_put(db%handle, key, len(key, c_size_t), val, len(val, c_size_t))
  end subroutine quire_db_put

  recursive subroutine quire_db_delete(db, key, status)
    type(quire_db), intent(in) :: db
    character(len=*, kind=c_char), intent(in) :: key
    integer, intent(out) :: status
    status = c_db_delete(db%handle, key, len(key, c_size_t))
  end subroutine quire_db_delete

  ! VAL is empty where STATUS is not QUIRE_OK.
  recursive subroutine quire_db_get(db, key, val, status)
    type(quire_db), intent(in) :: db
    character(len=*, kind=c_char), intent(in) :: key
    character(len=:, kind=c_char), allocatable, intent(out) :: val
    integer, intent(out) :: status
    type(quire_bytes) :: got
    status = c_db_get(db%handle, key, len(key, c_size_t), got%data, got%size)
    val = taken(got)
  end subroutine quire_db_get

  recursive subroutine quire_db_write(db, batch, status)
    type(quire_db), intent(in) :: db
    type(quire_batch), intent(in) :: batch
    integer, intent(out) :: status
    status = c_db_write(db%handle, batch%handle)
  end subroutine quire_db_write

  recursive subroutine quire_db_fence(db, status)
    type(quire_db), intent(in) :: db
    integer, intent(out) :: status
    status = c_db_fence(db%handle)
  end subroutine quire_db_fence

  recursive subroutine quire_db_barrier(db, level, status)
    type(quire_db), intent(in) :: db
    integer, intent(in) :: level
    integer, intent(out) :: status
    status = c_db_barrier(db%handle, int(level, c_int))
  end subroutine quire_db_barrier

  recursive subroutine quire_db_set_consistency(db, consistency, status)
    type(quire_db), intent(in) :: db
    integer, intent(in) :: consistency
    integer, intent(out) :: status
    status = c_db_set_consistency(db%handle, int(consistency, c_int))
  end subroutine quire_db_set_consistency

  recursive subroutine quire_db_protect(db, protection, status)
    type(quire_db), intent(in) :: db
    integer, intent(in) :: protection
    integer, intent(out) :: status
    status = c_db_protect(db%handle, int(protection, c_int))
  end subroutine quire_db_protect

  recursive subroutine quire_db_compact(db, status)
    type(quire_db), intent(in) :: db
    integer, intent(out) :: status
    status = c_db_compact(db%handle)
  end subroutine quire_db_compact

  ! Writes this rank's MemTables into tables, durable.
  recursive subroutine quire_db_flush(db, status)
    type(quire_db), intent(in) :: db
    integer, intent(out) :: status
    status = c_db_flush(db%handle)
  end subroutine quire_db_flush

  recursive subroutine quire_db_statistic(db, name, val, status)
    type(quire_db), intent(in) :: db
    character(len=*), intent(in) :: name
    integer(c_int64_t), intent(out) :: val
    integer, intent(out) :: status
    val = 0
    status = c_db_statistic(db%handle, trim(name) // c_null_char, val)
  end subroutine quire_db_statistic

  ! ---- Updates ----

  ! On all ranks, before the first update. USER is handed to the function.
  recursive subroutine quire_db_register_update(db, id, function, status, user)
    type(quire_db), intent(in) :: db
    integer, intent(in) :: id
    procedure(quire_update_function) :: function
    integer, intent(out) :: status
    type(c_ptr), intent(in), optional :: user
    type(c_ptr) :: handed
    handed = c_null_ptr
    if (present(user)) handed = user
    status = c_db_register_answering_update(db%handle, int(id, c_int32_t), c_funloc(function), &
                                            handed)
  end subroutine quire_db_register_update

  recursive subroutine quire_db_update(db, key, id, argument, status)
    type(quire_db), intent(in) :: db
    character(len=*, kind=c_char), intent(in) :: key, argument
    integer, intent(in) :: id
    integer, intent(out) :: status
    status = c_db_update(db%handle, key, len(key, c_size_t), int(id, c_int32_t), argument, &
                         len(argument, c_size_t))
  end subroutine quire_db_update

  ! ANSWER is empty where STATUS is not QUIRE_OK.
  recursive subroutine quire_db_update_and_answer(db, key, id, argument, answer, status)
    type(quire_db), intent(in) :: db
    character(len=*, kind=c_char), intent(in) :: key, argument
    integer, intent(in) :: id
    character(len=:, kind=c_char), allocatable, intent(out) :: answer
    integer, intent(out) :: status
    type(quire_bytes) :: got
    character(kind=c_char), target :: key_bytes(len(key, c_size_t) + 1)
    character(kind=c_char), target :: argument_bytes(len(argument, c_size_t) + 1)
    key_bytes = transfer(key // c_null_char, key_bytes)
    argument_bytes = transfer(argument // c_null_char, argument_bytes)
    status = c_db_update_and_answer(db%handle, quire_bytes(c_loc(key_bytes), len(key, c_size_t)), &
      int(id, c_int32_t), quire_bytes(c_loc(argument_bytes), len(argument, c_size_t)), got%data, &
      got%size)
    answer = taken(got)
  end subroutine quire_db_update_and_answer

  ! Inside an update function: VAL is its UPDATED or ANSWER.
  recursive subroutine quire_value_set(val, bytes, status)
    type(c_ptr), intent(in) :: val
    character(len=*, kind=c_char), intent(in) :: bytes
    integer, intent(out) :: status
    status = c_value_set(val, bytes, len(bytes, c_size_t))
  end subroutine quire_value_set

  ! Inside an update function: a copy of what it was given.
  recursive function quire_bytes_at(bytes) result(text)
    type(quire_bytes), intent(in) :: bytes
    character(len=bytes%size, kind=c_char) :: text
    text = bytes_at(bytes%data, bytes%size)
  end function quire_bytes_at

  ! ---- Reading beside a writer: quire/reader.h ----

  ! Of the options, cache_bytes and the partitioner count.
  recursive subroutine quire_reader_open(directory, reader, status, options)
    character(len=*), intent(in) :: directory
    type(quire_reader), intent(out) :: reader
    integer, intent(out) :: status
    type(quire_options), intent(in), optional :: options
    status = c_reader_open(trim(directory) // c_null_char, handle_of(options), reader%handle)
  end subroutine quire_reader_open

  ! After its walks.
  recursive subroutine quire_reader_destroy(reader)
    type(quire_reader), intent(inout) :: reader
    call c_reader_destroy(reader%handle)
    reader%handle = c_null_ptr
  end subroutine quire_reader_destroy

  ! VAL is empty where STATUS is not QUIRE_OK. QUIRE_BUSY: refresh, and ask again.
  recursive subroutine quire_reader_get(reader, key, val, status)
    type(quire_reader), intent(in) :: reader
    character(len=*, kind=c_char), intent(in) :: key
    character(len=:, kind=c_char), allocatable, intent(out) :: val
    integer, intent(out) :: status
    type(quire_bytes) :: got
    status = c_reader_get(reader%handle, key, len(key, c_size_t), got%data, got%size)
    val = taken(got)
  end subroutine quire_reader_get

  ! A walk over the pairs of all ranks.
  recursive subroutine quire_reader_iter_create(reader, iter, status)
    type(quire_reader), intent(in) :: reader
    type(quire_iter), intent(out) :: iter
    integer, intent(out) :: status
    status = c_reader_iter_create(reader%handle, iter%handle)
  end subroutine quire_reader_iter_create

  recursive subroutine quire_reader_refresh(reader, status)
    type(quire_reader), intent(in) :: reader
    integer, intent(out) :: status
    status = c_reader_refresh(reader%handle)
  end subroutine quire_reader_refresh

  ! ---- Batches ----

  recursive subroutine quire_batch_create(batch, status)
    type(quire_batch), intent(out) :: batch
    integer, intent(out) :: status
    status = c_batch_create(batch%handle)
  end subroutine quire_batch_create

  recursive subroutine quire_batch_put(batch, key, val, status)
    type(quire_batch), intent(in) :: batch
    character(len=*, kind=c_char), intent(in) :: key, val
    integer, intent(out) :: status
    status = c_batch_put(batch%handle, key, len(key, c_size_t), val, len(val, c_size_t))
  end subroutine quire_batch_put

  recursive subroutine quire_batch_delete(batch, key, status)
    type(quire_batch), intent(in) :: batch
    character(len=*, kind=c_char), intent(in) :: key
    integer, intent(out) :: status
    status = c_batch_delete(batch%handle, key, len(key, c_size_t))
  end subroutine quire_batch_delete

  recursive subroutine quire_batch_clear(batch, status)
    type(quire_batch), intent(in) :: batch
    integer, intent(out) :: status
    status = c_batch_clear(batch%handle)
  end subroutine quire_batch_clear

  recursive subroutine quire_batch_destroy(batch)
    type(quire_batch), intent(inout) :: batch
    call c_batch_destroy(batch%handle)
    batch%handle = c_null_ptr
  end subroutine quire_batch_destroy

  ! ---- Walks over the pairs that this rank owns ----

  recursive subroutine quire_iter_create(db, iter, status)
    type(quire_db), intent(in) :: db
    type(quire_iter), intent(out) :: iter
    integer, intent(out) :: status
    status = c_iter_create(db%handle, iter%handle)
  end subroutine quire_iter_create

  recursive subroutine quire_iter_destroy(iter)
    type(quire_iter), intent(inout) :: iter
    call c_iter_destroy(iter%handle)
    iter%handle = c_null_ptr
  end subroutine quire_iter_destroy

  recursive subroutine quire_iter_seek_to_first(iter, status)
    type(quire_iter), intent(in) :: iter
    integer, intent(out) :: status
    status = c_iter_seek_to_first(iter%handle)
  end subroutine quire_iter_seek_to_first

  recursive subroutine quire_iter_seek_to_last(iter, status)
    type(quire_iter), intent(in) :: iter
    integer, intent(out) :: status
    status = c_iter_seek_to_last(iter%handle)
  end subroutine quire_iter_seek_to_last

  recursive subroutine quire_iter_seek(iter, key, status)
    type(quire_iter), intent(in) :: iter
    character(len=*, kind=c_char), intent(in) :: key
    integer, intent(out) :: status
    status = c_iter_seek(iter%handle, key, len(key, c_size_t))
  end subroutine quire_iter_seek

  recursive subroutine quire_iter_next(iter, status)
    type(quire_iter), intent(in) :: iter
    integer, intent(out) :: status
    status = c_iter_next(iter%handle)
  end subroutine quire_iter_next

  recursive subroutine quire_iter_prev(iter, status)
    type(quire_iter), intent(in) :: iter
    integer, intent(out) :: status
    status = c_iter_prev(iter%handle)
  end subroutine quire_iter_prev

  ! Whether it stands on a pair; where not, quire_iter_status tells the end from a failure.
  recursive logical function quire_iter_valid(iter)
    type(quire_iter), intent(in) :: iter
    quire_iter_valid = c_iter_valid(iter%handle) /= 0
  end function quire_iter_valid

  recursive subroutine quire_iter_status(iter, status)
    type(quire_iter), intent(in) :: iter
    integer, intent(out) :: status
    status = c_iter_status(iter%handle)
  end subroutine quire_iter_status

  ! A copy of the key that it stands on.
  recursive subroutine quire_iter_key(iter, key, status)
    type(quire_iter), intent(in) :: iter
    character(len=:, kind=c_char), allocatable, intent(out) :: key
    integer, intent(out) :: status
    type(quire_bytes) :: at
    status = c_iter_key(iter%handle, at%data, at%size)
    key = quire_bytes_at(at)
  end subroutine quire_iter_key

  ! A copy of the value that it stands on.
  recursive subroutine quire_iter_value(iter, val, status)
    type(quire_iter), intent(in) :: iter
    character(len=:, kind=c_char), allocatable, intent(out) :: val
    integer, intent(out) :: status
    type(quire_bytes) :: at
    status = c_iter_value(iter%handle, at%data, at%size)
    val = quire_bytes_at(at)
  end subroutine quire_iter_value

  include 'quire_dataset.inc'
  include 'quire_stream.inc'

  ! ---- From C ----

  recursive type(c_ptr) function handle_of(options)
    type(quire_options), intent(in), optional :: options
    handle_of = c_null_ptr
    if (present(options)) handle_of = options%handle
  end function handle_of

  ! A copy of what C has given away, which is freed.
  recursive function taken(bytes) result(text)
    type(quire_bytes), intent(in) :: bytes
    character(len=bytes%size, kind=c_char) :: text
    text = quire_bytes_at(bytes)
    call c_free(bytes%data)
  end function taken

  ! A copy of LENGTH bytes; none where there are none.
  recursive function bytes_at(bytes, length) result(text)
    type(c_ptr), intent(in) :: bytes
    integer(c_size_t), intent(in) :: length
    character(len=length, kind=c_char) :: text
    character(kind=c_char), pointer :: from(:)
    integer(c_size_t) :: i
    if (.not. c_associated(bytes)) return
    call c_f_pointer(bytes, from, [length])
    do i = 1, length
      text(i:i) = from(i)
    end do
  end function bytes_at

  ! A copy of a string that ends in NUL.
  recursive function text_at(bytes) result(text)
    type(c_ptr), intent(in) :: bytes
    character(len=:), allocatable :: text
    text = ''
    if (c_associated(bytes)) text = bytes_at(bytes, c_strlen(bytes))
  end function text_at

end module quire
