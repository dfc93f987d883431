! Streams from Fortran, without MPI: stream_test PLACE
program stream_test
  use quire
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: rows = 4, columns = 3
  integer(c_int64_t), parameter :: field_bytes = 8 * rows * columns
  type(quire_stream_writer) :: writer
  type(quire_stream_reader) :: reader
  type(quire_options) :: options
  character(len=512) :: place
  integer :: status, failures = 0
  integer(c_int64_t) :: number
  integer(c_size_t) :: bytes
  type(c_ptr) :: memory
  real(c_double), pointer :: field(:, :)
  real(c_double), target :: copy(rows, columns)
  integer(c_int32_t), target :: ids(5)

  call get_command_argument(1, place)
  call quire_options_create(options, status)
  call quire_options_set(options, 'stream_log_bytes', '4MiB', status)
  call expect(status == QUIRE_OK, 'the size of the log')
  call quire_options_set(options, 'stream_keep_versions', '4', status)
  call expect(status == QUIRE_OK, 'how many versions are kept')
  call quire_stream_writer_open(place, 'plate', -1, writer, status, options)
  call expect(status == QUIRE_INVALID_ARGUMENT .and. &
              index(quire_error_message(), 'rank -1') > 0, 'a writer of a negative rank')
  call quire_stream_reader_open(place, 'plate', -1, reader, status)
  call expect(status == QUIRE_INVALID_ARGUMENT, 'a reader of a negative rank')
  call quire_stream_writer_open(place, 'plate', 1, writer, status, options)
  call expect(status == QUIRE_OK, 'writer_open')
  call write_versions()
  call quire_stream_reader_open(place, 'plate', 1, reader, status)
  call expect(status == QUIRE_OK, 'reader_open')
  call read_versions()
  call check_after_timeout()
  call check_end()
  call quire_stream_reader_destroy(reader)
  call quire_options_destroy(options)
  if (failures > 0) error stop 1
  print '(a)', 'all is well'

contains

  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (good) return
    failures = failures + 1
    print '(4a)', 'failed: ', what, ': ', quire_error_message()
  end subroutine expect

  subroutine write_versions()
    call quire_stream_writer_create(writer, 'field', field_bytes, memory, status, &
                                    QUIRE_ELEMENT_FLOAT64, [4_c_int64_t, 3_c_int64_t])
    call expect(status == QUIRE_OK .and. c_associated(memory), 'create')
    call c_f_pointer(memory, field, [rows, columns])
    call expect(all(field == 0), 'zeroes')
    ids = [1, 2, 3, 4, 5]
    call quire_stream_writer_attach(writer, 'ids', c_loc(ids), 20_c_int64_t, status, &
                                    QUIRE_ELEMENT_INT32)
    call expect(status == QUIRE_OK, 'attach')
    call quire_stream_writer_create(writer, 'odd', 15_c_int64_t, memory, status, &
                                    QUIRE_ELEMENT_FLOAT64)
    call expect(status == QUIRE_INVALID_ARGUMENT, 'no whole number of elements')
    field(2, 3) = 1.5d0
    call quire_stream_writer_put(writer, 'field', number, status)
    call expect(status == QUIRE_OK .and. number == 1, 'put')
    field(2, 3) = 2.5d0
    ids(5) = -5
    call quire_stream_writer_snapshot(writer, number, status)
    call expect(status == QUIRE_OK .and. number == 2, 'snapshot')
    call quire_stream_writer_put(writer, 'nothing', number, status)
    call expect(status == QUIRE_NOT_FOUND .and. number == 0, 'put of nothing')
    field = 0
    ids = 0
    call quire_stream_writer_restore(writer, 1_c_int64_t, status, 'field')
    call expect(status == QUIRE_OK .and. field(2, 3) == 1.5d0, 'restore of one')
    call quire_stream_writer_restore(writer, 0_c_int64_t, status)
    call expect(status == QUIRE_OK .and. field(2, 3) == 2.5d0 .and. ids(5) == -5, 'restore')
    call quire_stream_writer_sync(writer, status)
    call expect(status == QUIRE_OK, 'sync')
    call quire_stream_writer_last_snapshot(writer, number, status)
    call expect(status == QUIRE_OK .and. number == 2, 'last_snapshot')
  end subroutine write_versions

  subroutine read_versions()
    copy = 0
    bytes = int(field_bytes, c_size_t)
    call quire_stream_reader_get(reader, 'field', 1_c_int64_t, c_loc(copy), bytes, status)
    call expect(status == QUIRE_OK .and. copy(2, 3) == 1.5d0 .and. copy(1, 3) == 0, 'get')
    call quire_stream_reader_get_at(reader, 'field', 0_c_int64_t, c_loc(copy), bytes, status)
    call expect(status == QUIRE_OK .and. all(copy == field), 'get_at')
    bytes = 8
    call quire_stream_reader_get(reader, 'field', 0_c_int64_t, c_loc(copy), bytes, status)
    call expect(status == QUIRE_INVALID_ARGUMENT .and. bytes == field_bytes, 'too small')
    call quire_stream_reader_get(reader, 'nothing', 0_c_int64_t, c_loc(copy), bytes, status)
    call expect(status == QUIRE_NOT_FOUND, 'get of nothing')
  end subroutine read_versions

  ! A wait that timed out changes nothing: every call does what it does without it.
  subroutine check_after_timeout()
    call wait_for_nothing(2_c_int64_t)
    copy = 0
    bytes = int(field_bytes, c_size_t)
    call quire_stream_reader_get(reader, 'field', 1_c_int64_t, c_loc(copy), bytes, status)
    call expect(status == QUIRE_OK .and. copy(2, 3) == 1.5d0, 'get after a time-out')
    call wait_for_nothing(2_c_int64_t)
    call quire_stream_reader_get_at(reader, 'field', 2_c_int64_t, c_loc(copy), bytes, status)
    call expect(status == QUIRE_OK .and. copy(2, 3) == 2.5d0, 'get_at after a time-out')
    call wait_for_nothing(2_c_int64_t)
    field(2, 3) = 3.5d0
    call quire_stream_writer_put(writer, 'field', number, status)
    call expect(status == QUIRE_OK .and. number == 3, 'put after a time-out')
    call wait_for_nothing(3_c_int64_t)
    call quire_stream_writer_snapshot(writer, number, status)
    call expect(status == QUIRE_OK .and. number == 4, 'snapshot after a time-out')
    call quire_stream_writer_restore(writer, 2_c_int64_t, status)
    call expect(status == QUIRE_OK .and. field(2, 3) == 2.5d0, 'restore after a time-out')
    call quire_stream_reader_wait(reader, 3_c_int64_t, 10000_c_int64_t, number, status)
    call expect(status == QUIRE_OK .and. number == 4, 'wait after a time-out')
  end subroutine check_after_timeout

  subroutine wait_for_nothing(last)
    integer(c_int64_t), intent(in) :: last
    call quire_stream_reader_wait(reader, last, 1_c_int64_t, number, status)
    call expect(status == QUIRE_TIMED_OUT .and. number == 0, 'wait for nothing')
  end subroutine wait_for_nothing

  subroutine check_end()
    call quire_stream_reader_wait(reader, 1_c_int64_t, 10000_c_int64_t, number, status)
    call expect(status == QUIRE_OK .and. number == 4, 'wait')
    call wait_for_nothing(4_c_int64_t)
    call quire_stream_writer_free(writer, 'ids', status)
    call expect(status == QUIRE_OK, 'free')
    call quire_stream_writer_finish(writer, status)
    call expect(status == QUIRE_OK, 'finish')
    call quire_stream_writer_destroy(writer)
    call quire_stream_reader_wait(reader, 4_c_int64_t, 10000_c_int64_t, number, status)
    call expect(status == QUIRE_NOT_FOUND, 'the stream has finished')
    call quire_stream_writer_put(writer, 'field', number, status)
    call expect(status == QUIRE_INVALID_ARGUMENT, 'put with a destroyed handle')
  end subroutine check_end
end program stream_test
